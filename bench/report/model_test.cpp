// SPDX-License-Identifier: Apache-2.0
#include "copies.hpp"
#include "model.hpp"
#include "report_json.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace farcall::tool::model_test {
namespace {

/// Returns a chart with one series of `points` points beside a floor of 100 ns.
line_chart lines(std::size_t points) {
  line_chart c{"Calls", "", {"bytes", unit::bytes, scale::log2}, {"time"}, {{"sync", {}}}};
  for (std::size_t i = 0; i < points; ++i)
    c.series[0].points.push_back({static_cast<double>(i + 1), only(150), 100});
  c.series.push_back(level_floor("floor", only(100), c.series));
  return c;
}

TEST(bandwidths, turn_their_percentiles_round) {
  const chart_point p = bandwidth_point(1000, {100, 200, 400, 50, 500, 20}, only(100), 2);
  EXPECT_DOUBLE_EQ(p.value.p50, 1e10) << "twice 1000 bytes in 200 ns";
  EXPECT_DOUBLE_EQ(p.value.p1, 5e9);
  EXPECT_DOUBLE_EQ(p.value.p99, 2e10);
  EXPECT_DOUBLE_EQ(p.floor, 2e10);
}

TEST(level_floors, go_from_the_first_x_to_the_last) {
  const chart_series floor = level_floor("floor", only(100), lines(5).series);
  ASSERT_EQ(floor.points.size(), 2U);
  EXPECT_EQ(floor.points.front().x, 1);
  EXPECT_EQ(floor.points.back().x, 5);
  EXPECT_TRUE(level_floor("floor", only(100), {}).points.empty());
}

TEST(reports, have_figures_only_if_something_was_measured) {
  report r{"bench", "", "here", {lines(0), row_chart{}}, {}};
  EXPECT_FALSE(has_figures(r)) << "a floor alone is no figure";
  r.charts.emplace_back(row_chart{"", "", {}, {{"", nothing_measured(), {}, ""}}});
  EXPECT_FALSE(has_figures(r));
  r.charts.emplace_back(lines(1));
  EXPECT_TRUE(has_figures(r));
}

TEST(reports, are_json_that_names_units_scales_and_roles) {
  row_chart rows{"Rivals", "all", {"time"}, {{"here", only(3), only(2), "why"}}};
  rows.rows.push_back({"absent", nothing_measured(), nothing_measured(), "\x01"});
  line_chart c = lines(1);
  c.series.push_back({"theirs", {}, series_role::published});
  const report r{"bench", "text", "one\ntwo", {c, rows}, {"left"}};
  EXPECT_EQ(report_json(r).dump(),
            R"({"title":"bench","text":"text","circumstances":"one\ntwo","charts":[)"
            R"({"title":"Calls","subtitle":"",)"
            R"("x":{"title":"bytes","unit":"bytes","scale":"log2"},"series":[)"
            R"({"name":"sync","role":"figure","points":[[1.0,150.0,150.0,150.0,100.0,1]]},)"
            R"({"name":"floor","role":"floor","points":[[1.0,100.0,100.0,100.0,null,1]]},)"
            R"({"name":"theirs","role":"published","points":[]}],)"
            R"("y":{"title":"time","unit":"nanoseconds","scale":"suited"}},)"
            R"({"title":"Rivals","subtitle":"all",)"
            R"("x":{"title":"time","unit":"nanoseconds","scale":"suited"},"series":[)"
            R"({"name":"here","role":"figure","remark":"why","points":[[null,3.0,3.0,3.0,2.0,1]]},)"
            R"({"name":"absent","role":"figure","remark":"\u0001",)"
            R"("points":[[null,null,null,null,null,0]]}]}],"left_out":["left"]})");
}

} // namespace
} // namespace farcall::tool::model_test
