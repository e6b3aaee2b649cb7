#include "markup.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(markup, coordinates_have_no_more_digits_than_they_need) {
  EXPECT_EQ(coordinate(12), "12");
  EXPECT_EQ(coordinate(100), "100");
  EXPECT_EQ(coordinate(12.5), "12.5");
  EXPECT_EQ(coordinate(1.0 / 3), "0.33");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(std::numeric_limits<double>::quiet_NaN()), "0");
  EXPECT_EQ(coordinate(std::numeric_limits<double>::infinity()), "0");
}

TEST(markup, values_have_units) {
  EXPECT_EQ(value_text(unit::nanoseconds, 187), "187 ns");
  EXPECT_EQ(value_text(unit::nanoseconds, 1050), "1.05 µs");
  EXPECT_EQ(value_text(unit::bytes, 65536), "64 KiB");
  EXPECT_EQ(value_text(unit::bytes, -1024), "-1 KiB") << "memory that was given back";
  EXPECT_EQ(value_text(unit::per_second, 5.06e5), "506 k/s");
  EXPECT_EQ(value_text(unit::bytes_per_second, 12.3e9), "12.3 GB/s");
  EXPECT_EQ(value_text(unit::bytes_per_second, 5), "5.00 B/s");
  EXPECT_EQ(value_text(unit::count, 300'000), "300,000");
  EXPECT_EQ(value_text(unit::count, 999), "999");
  EXPECT_EQ(value_text(unit::percent, 0.0083), "0.0083 %");
  EXPECT_EQ(value_text(unit::nanoseconds, std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(markup, ticks_lose_zeros_that_say_nothing) {
  EXPECT_EQ(tick_text(unit::nanoseconds, 0), "0 ns");
  EXPECT_EQ(tick_text(unit::nanoseconds, 200), "200 ns");
  EXPECT_EQ(tick_text(unit::nanoseconds, 1000), "1 µs");
  EXPECT_EQ(tick_text(unit::nanoseconds, 1500), "1.5 µs");
  EXPECT_EQ(tick_text(unit::bytes_per_second, 20e9), "20 GB/s");
}

TEST(markup, lines_break_between_words) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("a longerword b", 4), (std::vector<std::string>{"a", "longerword", "b"}));
  EXPECT_TRUE(wrapped("", 7).empty());
}

} // namespace
} // namespace farcall::tool
