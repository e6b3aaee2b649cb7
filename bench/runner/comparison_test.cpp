// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include <gtest/gtest.h>

#include <string>

namespace farcall::tool {
namespace {

comparison measured_as(double ours, double bare, double goal) {
  comparison c{"call", "a call", "a bare message", goal};
  c.take({{ours}, {bare}});
  return c;
}

TEST(measure_by_turns, counts_all_turns_except_the_first) {
  std::string order;
  double times = 0;
  const turn_samples got = measure_by_turns(
      2, [&] { return order += 'o', ++times; }, [&] { return order += 'b', ++times; });
  EXPECT_EQ(order, "obobob");
  EXPECT_EQ(got.ours, (std::vector<double>{3, 5}));
  EXPECT_EQ(got.bare, (std::vector<double>{4, 6}));
}

TEST(comparison, is_reached_up_to_its_goal) {
  EXPECT_TRUE(measured_as(110, 100, 1.1).is_reached());
  EXPECT_FALSE(measured_as(111, 100, 1.1).is_reached());
  EXPECT_EQ(measured_as(111, 100, 1.1).goal_text(), "1.10 x, missed");
  EXPECT_EQ(measured_as(111, 100, 0).goal_text(), "");
}

TEST(comparison, shows_why_it_is_absent) {
  comparison c = measured_as(110, 100, 1.1);
  EXPECT_EQ(comparison_json(c).at("ratio"), json(1.1));
  EXPECT_EQ(comparison_json(c).at("is_reached"), json(true));
  c.absent = "no library";
  EXPECT_EQ(comparison_json(c).at("absent"), json("no library"));
  EXPECT_NE(comparisons_table("time", {c}).find("absent: a call: no library"), std::string::npos);
}

} // namespace
} // namespace farcall::tool
