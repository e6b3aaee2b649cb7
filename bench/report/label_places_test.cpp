#include "label_places.hpp"

#include <array>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

constexpr box area{0, 0, 100, 100};

TEST(label_places, takes_the_first_that_is_free) {
  label_places labels(area);
  const std::array<box, 2> candidates{{{10, 10, 30, 20}, {40, 10, 60, 20}}};
  EXPECT_EQ(labels.place(candidates, false)->left, 10);
  EXPECT_EQ(labels.place(candidates, false)->left, 40) << "the first one is taken now";
  EXPECT_FALSE(labels.place(candidates, false));
}

TEST(label_places, may_touch_but_not_overlap) {
  label_places labels(area);
  labels.block({0, 0, 50, 100});
  EXPECT_TRUE(labels.place(std::array<box, 1>{{{50, 0, 70, 20}}}, false));
  EXPECT_FALSE(labels.place(std::array<box, 1>{{{49, 30, 70, 50}}}, false));
}

TEST(label_places, stay_within_the_area) {
  label_places labels(area);
  EXPECT_FALSE(labels.place(std::array<box, 1>{{{90, 10, 101, 20}}}, true));
  EXPECT_FALSE(labels.place(std::array<box, 1>{{{-1, 10, 20, 20}}}, true));
  EXPECT_TRUE(labels.place(std::array<box, 1>{{{80, 90, 100, 100}}}, true));
}

TEST(label_places, lie_on_lines_only_if_they_may) {
  const std::array<box, 1> middle{{{40, 40, 60, 60}}};
  label_places labels(area);
  labels.block_line(0, 0, 100, 100);
  EXPECT_FALSE(labels.place(middle, false));
  EXPECT_TRUE(labels.place(middle, true));
}

TEST(label_places, lines_beside_them_do_not_matter) {
  label_places labels(area);
  labels.block_line(0, 30, 100, 30);
  labels.block_line(30, 0, 30, 100);
  labels.block_line(0, 75, 75, 0);  // passes the corner
  labels.block_line(0, 50, 35, 50); // ends before it
  EXPECT_TRUE(labels.place(std::array<box, 1>{{{40, 40, 60, 60}}}, false));
}

} // namespace
} // namespace farcall::tool
