#include "shares.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

figure median_of(double ns, double floor) {
  figure f;
  f.ns.p50 = ns;
  f.floor.p50 = floor;
  return f;
}

TEST(shares, are_differences_of_consecutive_figures) {
  const call_shares s = shares_of(median_of(140, 100), median_of(190.25, 101), median_of(188, 102));
  EXPECT_DOUBLE_EQ(s.ring, 40);
  EXPECT_DOUBLE_EQ(s.engine, 50.25);
  EXPECT_DOUBLE_EQ(s.arguments, -2.25);
}

TEST(shares, have_a_line_and_a_json_object) {
  const call_shares s{.ring = 40.04, .engine = 50.256, .arguments = -2.25};
  EXPECT_EQ(shares_text(s), "ring: ring only - floor = 40.0 ns; engine: empty - ring only = 50.3 "
                            "ns; arguments: two doubles - empty = -2.2 ns\n");
  EXPECT_EQ(shares_json(s), (json{{"ring", 40.04}, {"engine", 50.26}, {"arguments", -2.25}}));
}

} // namespace
} // namespace farcall::tool
