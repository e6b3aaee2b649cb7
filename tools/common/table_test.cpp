// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(table, columns_are_as_wide_as_the_widest_cell) {
  table t{{{"name", table::align::left}, {"p50"}}};
  t.add_row({"floor", "187 ns"});
  t.add_row({"x", "1.05 us"});
  EXPECT_EQ(t.text(), "name       p50\n"
                      "-----  -------\n"
                      "floor   187 ns\n"
                      "x      1.05 us\n");
}

TEST(table, missing_cells_stay_empty_and_leave_no_trailing_blanks) {
  table t{{{"a", table::align::left}, {"remark", table::align::left}}};
  t.add_row({"one"});
  EXPECT_EQ(t.text(), "a    remark\n---  ------\none\n");
}

TEST(table, too_many_cells_are_refused) {
  table t{{{"a"}}};
  EXPECT_THROW(t.add_row({"1", "2"}), std::logic_error);
}

TEST(table, control_characters_in_cells_are_replaced) {
  table t{{{"name", table::align::left}}};
  t.add_row({"a\x1b[2J\nb\xFF"});
  EXPECT_EQ(t.text(), "name\n--------\na\uFFFD[2J\uFFFDb\uFFFD\n");
}

TEST(table, width_counts_code_points_not_bytes) {
  EXPECT_EQ(display_width("µs"), 2U);
  EXPECT_EQ(display_width("ns"), 2U);
}

TEST(format, time_takes_the_unit_that_suits) {
  EXPECT_EQ(format_time(5.25), "5.25 ns");
  EXPECT_EQ(format_time(187.4), "187 ns");
  EXPECT_EQ(format_time(999.4), "999 ns");
  EXPECT_EQ(format_time(999.9), "1.00 us");
  EXPECT_EQ(format_time(1050), "1.05 us");
  EXPECT_EQ(format_time(12.34e6), "12.3 ms");
  EXPECT_EQ(format_time(2.5e9), "2.50 s");
  EXPECT_EQ(format_time(4.5e13), "45000 s");
  EXPECT_EQ(format_time(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(format, bytes) {
  EXPECT_EQ(format_bytes(8), "8 B");
  EXPECT_EQ(format_bytes(64 * 1024), "64 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::uint64_t{1} << 30), "1 GiB");
}

TEST(format, rate_and_ratio) {
  EXPECT_EQ(format_rate(12.34e6), "12.3 M/s");
  EXPECT_EQ(format_ratio(1.074), "1.07 x");
}

} // namespace
} // namespace farcall::tool
