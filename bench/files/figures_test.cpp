// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace farcall::tool {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// Returns a row in which all calls of a way take the same time. A direct call takes 100 us.
files_row row_of(std::uint64_t record, std::optional<double> limit, double target) {
  files_row row;
  row.work = {.access = file_access::read, .record = record, .threads = 4};
  row.direct = only(100'000);
  if (limit) row.limit = only(*limit);
  row.preload = only(target);
  return row;
}

TEST(files_figures, bound_is_the_slower_one_of_direct_and_limit) {
  EXPECT_NEAR(bound_mb_s(row_of(mib, 200'000, 1)), 5243, 1);
  EXPECT_NEAR(bound_mb_s(row_of(mib, 50'000, 1)), 10486, 1) << "direct calls are slower";
  EXPECT_NEAR(bound_mb_s(row_of(mib, {}, 1)), 10486, 1);
  files_row row = row_of(mib, 200'000, 1);
  row.plain_mb_s = 1000;
  EXPECT_NEAR(bound_mb_s(row), 1000, 1);
}

TEST(files_figures, name_the_ways_that_were_left_out) {
  const files_figures figures{
      {row_of(mib, 200'000, 250'000)}, false, {"mount: not measured: no fuse"}};
  const std::string text = files_tables(figures);
  EXPECT_TRUE(text.starts_with("mount: not measured: no fuse\n"));
  EXPECT_NE(text.find("10486   5243     4194  0.80 x"), std::string::npos) << text;
  const std::string document = files_json(figures).dump();
  EXPECT_NE(document.find(R"("to_direct":0.4,"to_bound":0.8},"mount":null,)"), std::string::npos)
      << document;
}

TEST(files_figures, have_charts_of_large_and_small_records) {
  files_row four = row_of(mib, 200'000, 250'000);
  four.mount = only(400'000);
  files_row eight = row_of(mib, 50'000, 125'000);
  eight.work.threads = 8;
  files_row again = eight;
  again.work.access = file_access::read_again;
  const std::vector<chart> charts =
      files_charts({{four, row_of(4096, {}, 250'000), eight, again}, false, {}});
  ASSERT_EQ(charts.size(), 3U) << "reads, reads again, and small records";
  const auto& rates = std::get<line_chart>(charts[0]);
  EXPECT_EQ(rates.title, "Files of the host: pread of 1 MiB");
  std::vector<std::string> names;
  for (const chart_series& each : rates.series)
    names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"direct", "limit", "preload", "mount",
                                             "vector card, plain", "vector card, accelerated"}));
  const chart_series& preload = rates.series[2];
  ASSERT_EQ(preload.points.size(), 2U) << "four and eight threads";
  EXPECT_DOUBLE_EQ(preload.points[0].x, 4);
  EXPECT_DOUBLE_EQ(preload.points[0].value.p50, mib / 250'000. * 1e9);
  EXPECT_DOUBLE_EQ(preload.points[0].floor, mib / 200'000. * 1e9) << "the limit";
  EXPECT_DOUBLE_EQ(preload.points[1].floor, mib / 100'000. * 1e9) << "direct calls";
  EXPECT_EQ(rates.series[3].points.size(), 1U) << "mount";
  EXPECT_EQ(std::get<line_chart>(charts[1]).series.size(), 3U) << "no published reads again";
  const auto& times = std::get<row_chart>(charts[2]).rows;
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].what, "pread of 4 KiB, preload");
}

} // namespace
} // namespace farcall::tool
