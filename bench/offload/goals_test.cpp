// SPDX-License-Identifier: Apache-2.0
#include "goals.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

figure median_of(double ns, double floor, double ring_only) {
  figure f;
  f.ns.p50 = ns;
  f.floor.p50 = floor;
  f.ring_only.emplace().p50 = ring_only;
  return f;
}

TEST(call_goals, depend_on_the_caches_of_the_processors) {
  EXPECT_DOUBLE_EQ(nanoseconds_of(empty_goal, median_of(140, 100, 90)), 115);
  EXPECT_DOUBLE_EQ(nanoseconds_of(empty_goal, median_of(140, 400, 380)), 420);
  EXPECT_DOUBLE_EQ(nanoseconds_of(payload_goal, median_of(140, 100, 200)), 230);
  EXPECT_DOUBLE_EQ(nanoseconds_of(window_256_goal, median_of(140, 100, 200)), 22);
}

TEST(engine_cells, have_the_time_beyond_the_records_and_the_goal) {
  figure f = median_of(130.25, 100, 90);
  EXPECT_EQ(engine_cells(f), (std::vector<std::string>{"90.0 ns", "40.2 ns", ""}));
  f.goal = 115;
  EXPECT_EQ(engine_cells(f)[2], "115 ns, missed");
  f.goal = 130.25;
  EXPECT_EQ(engine_cells(f)[2], "130 ns, reached");
  EXPECT_EQ(engine_cells(figure{}), (std::vector<std::string>(3)));
}

TEST(engine_json, leaves_out_values_that_a_figure_lacks) {
  EXPECT_EQ(engine_json(figure{}), figure_json(figure{}));
  figure f = median_of(130.25, 100, 90);
  f.goal = 115;
  const json whole = engine_json(f);
  EXPECT_EQ(whole.at("engine"), json(40.25));
  EXPECT_EQ(whole.at("goal"), json(115.0));
  EXPECT_EQ(whole.at("ring_only").at("p50"), json(90.0));
}

} // namespace
} // namespace farcall::tool
