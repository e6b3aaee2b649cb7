#include "chart.hpp"
#include "copies.hpp"
#include "page.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace farcall::tool::chart_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

summary spread(double p50) { return {p50 * 0.9, p50, p50 * 1.2, p50 * 0.8, p50 * 2, 20}; }

/// One series of so many points beside a floor of 100 ns.
line_chart lines(std::size_t points) {
  line_chart c{"Calls", "", {"bytes", unit::bytes, scale::log2}, {"time"}, {{"sync", {}}}};
  for (std::size_t i = 0; i < points; ++i) {
    c.series[0].points.push_back(
        {std::exp2(static_cast<double>(i)), spread(150 + static_cast<double>(i)), 100});
  }
  c.series.push_back(level_floor("floor", spread(100), c.series));
  return c;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++n;
  return n;
}

void expect_only_numbers(const std::string& markup) {
  EXPECT_EQ(markup.find("nan"), std::string::npos);
  EXPECT_EQ(markup.find("inf"), std::string::npos);
}

TEST(overheads, are_times_as_long_as_the_floor) {
  EXPECT_DOUBLE_EQ(overhead(unit::nanoseconds, 150, 100), 1.5);
  EXPECT_DOUBLE_EQ(overhead(unit::bytes_per_second, 50, 100), 2) << "half the rate, twice as long";
  for (const double none : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(std::isnan(overhead(unit::nanoseconds, none, 100)));
    EXPECT_TRUE(std::isnan(overhead(unit::nanoseconds, 100, none)));
  }
}

TEST(overheads, of_a_series_are_told_from_the_least_to_the_most) {
  chart_series s{"sync", {{1, only(150), 100}, {2, only(120), 100}, {4, only(300), nan}}};
  EXPECT_EQ(overheads_of(s, unit::nanoseconds), "1.20 to 1.50 x");
  s.points.resize(1);
  EXPECT_EQ(overheads_of(s, unit::nanoseconds), "1.50 x");
  s.points.clear();
  EXPECT_EQ(overheads_of(s, unit::nanoseconds), "");
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
  EXPECT_EQ(floor.points.back().x, 16);
  EXPECT_TRUE(level_floor("floor", only(100), {}).points.empty());
}

TEST(charts, have_a_mark_for_each_point_whatever_their_number) {
  for (const std::size_t points : {1U, 2U, 40U}) {
    const drawn_chart drawn = draw(lines(points));
    EXPECT_EQ(count(drawn.markup, "<g><title>sync, "), points);
    // One more in the legend.
    EXPECT_EQ(count(drawn.markup, "<circle "), points + 1);
    expect_only_numbers(drawn.markup);
  }
}

TEST(charts, label_the_last_median_and_the_floor) {
  for (const std::size_t points : {1U, 3U, 40U}) {
    const std::string markup = draw(lines(points)).markup;
    const std::string last = "class=\"la\">" + std::to_string(149 + points) + " ns<";
    EXPECT_EQ(count(markup, last), 1U) << points;
    EXPECT_EQ(count(markup, ">floor 100 ns<"), 1U) << points;
  }
}

TEST(charts, leave_a_gap_where_nothing_was_measured) {
  line_chart c = lines(5);
  const std::string whole = draw(c).markup;
  c.series[0].points[2].value = nothing_measured();
  const std::string markup = draw(c).markup;
  EXPECT_EQ(count(whole, "class=\"l0 ln\"/>"), 2U) << "the legend's, and the line";
  EXPECT_EQ(count(markup, "class=\"l0 ln\"/>"), 3U);
  EXPECT_EQ(count(markup, "<g><title>sync, "), 4U);
  expect_only_numbers(markup);
}

TEST(charts, of_nothing_are_empty_but_whole) {
  expect_only_numbers(draw(line_chart{"none", "", {"x"}, {"y"}, {}}).markup);
  expect_only_numbers(draw(row_chart{"none", "", {"x"}, {}}).markup);
  const line_chart zero{
      "zero", "", {"x", unit::count, scale::linear}, {"y"}, {{"s", {{0, only(0)}, {1, only(0)}}}}};
  EXPECT_EQ(count(draw(zero).markup, "<g><title>s, "), 2U) << "zero has a place on a linear axis";
}

TEST(charts, of_rows_say_why_a_row_has_no_value) {
  const row_chart c{"Rivals",
                    "",
                    {"time"},
                    {{"here", spread(150), spread(100), ""},
                     {"absent", nothing_measured(), spread(100), "it is not installed"}}};
  const std::string markup = draw(c).markup;
  EXPECT_EQ(count(markup, ">1.50 x<"), 1U);
  EXPECT_EQ(count(markup, "not measured: it is not installed"), 1U);
  expect_only_numbers(markup);
}

TEST(charts, of_rows_without_floors_have_no_column_for_them) {
  const row_chart c{"Floors", "", {"time"}, {{"one", spread(150), nothing_measured(), ""}}};
  EXPECT_EQ(count(draw(c).markup, "to floor"), 0U);
}

TEST(charts, are_described_in_words) {
  EXPECT_EQ(description_of(lines(2)),
            "time against bytes, medians. sync: 150 ns at 1 B to 151 ns at 2 B, 1.50 to 1.51 x its "
            "floor. floor: 100 ns at 1 B to 100 ns at 2 B.");
}

TEST(pages, escape_every_text) {
  const std::string bad = "<b>&\"'\x01";
  line_chart l = lines(3);
  row_chart w{
      bad, bad, {bad}, {{bad, spread(3), spread(2), bad}, {bad, nothing_measured(), {}, bad}}};
  l.title = l.subtitle = l.x.title = l.y.title = l.series[0].name = l.series[1].name = bad;
  const report r{bad, bad, bad, {l, w}, {bad}};
  for (const std::string& text : {html_page(r), svg_picture(r)}) {
    EXPECT_EQ(count(text, "<b>"), 0U);
    EXPECT_EQ(count(text, "\x01"), 0U);
    EXPECT_GT(count(text, "&lt;b&gt;&amp;&quot;&#39;"), 10U);
  }
}

TEST(pages, are_the_same_each_time) {
  const report r{"bench", "", "here", {lines(9)}, {}};
  EXPECT_EQ(html_page(r), html_page(r));
  EXPECT_EQ(svg_picture(r), svg_picture(r));
}

TEST(pages, have_figures_only_if_something_was_measured) {
  report r{"bench", "", "here", {lines(0), row_chart{}}, {}};
  EXPECT_FALSE(has_figures(r)) << "a floor alone is no figure";
  r.charts.emplace_back(row_chart{"", "", {}, {{"", nothing_measured(), {}, ""}}});
  EXPECT_FALSE(has_figures(r));
  r.charts.emplace_back(lines(1));
  EXPECT_TRUE(has_figures(r));
}

} // namespace
} // namespace farcall::tool::chart_test
