#include "axis_scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using numbers = std::vector<double>;
using ends = axis_scale::ends;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void expect_near(const numbers& found, const numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i]));
}

TEST(linear_ticks, are_round_numbers) {
  expect_near(linear_ticks(0, 90, 10, unit::nanoseconds), {0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
  expect_near(linear_ticks(0, 100, 6, unit::nanoseconds), {0, 20, 40, 60, 80, 100});
  expect_near(linear_ticks(0, 100, 5, unit::nanoseconds), {0, 50, 100});
  expect_near(linear_ticks(3, 11, 6, unit::nanoseconds), {4, 6, 8, 10});
  expect_near(linear_ticks(0, 0.3, 4, unit::percent), {0, 0.1, 0.2, 0.3});
}

TEST(linear_ticks, of_bytes_are_round_in_kib_and_mib) {
  expect_near(linear_ticks(0, 4096, 5, unit::bytes), {0, 1024, 2048, 3072, 4096});
  expect_near(linear_ticks(0, 900, 5, unit::bytes), {0, 256, 512, 768});
}

TEST(linear_ticks, of_counts_are_whole) {
  expect_near(linear_ticks(1, 3, 12, unit::count), {1, 2, 3});
  expect_near(linear_ticks(1.2, 1.8, 12, unit::count), {1.2, 1.8}); // where there is none: the ends
}

TEST(linear_ticks, of_one_value_are_that_value) {
  expect_near(linear_ticks(7, 7, 5, unit::count), {7});
}

TEST(linear_ticks, begin_with_zero_that_has_no_sign) {
  EXPECT_FALSE(std::signbit(linear_ticks(0, 10, 5, unit::nanoseconds).front()));
}

TEST(log10_ticks, have_1_2_5_where_there_is_room) {
  expect_near(log10_ticks(10, 100, 8), {10, 20, 50, 100});
  expect_near(log10_ticks(1, 1e5, 8), {1, 10, 100, 1e3, 1e4, 1e5});
}

TEST(log10_ticks, leave_out_powers_where_there_are_many) {
  const numbers ticks = log10_ticks(1, 1e12, 8);
  EXPECT_LE(ticks.size(), 8U);
  expect_near(ticks, {1, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12});
}

TEST(log10_ticks, are_the_ends_where_nothing_round_is_between) {
  expect_near(log10_ticks(6, 9, 8), {6, 9});
}

TEST(log2_ticks, are_powers_of_two) {
  expect_near(log2_ticks(1, 16, 12), {1, 2, 4, 8, 16});
  expect_near(log2_ticks(5, 7, 12), {5, 7});
  const numbers many = log2_ticks(8, std::exp2(30), 12);
  EXPECT_LE(many.size(), 12U);
  EXPECT_TRUE(
      std::ranges::all_of(many, [](double t) { return std::exp2(std::round(std::log2(t))) == t; }));
}

TEST(axis_scale, places_what_is_linear_in_proportion) {
  const axis_scale s({"", unit::nanoseconds, scale::linear}, {40, 95}, ends::rounded, 300, 0, 6);
  EXPECT_EQ(s.low(), 0);
  EXPECT_EQ(s.high(), 100);
  EXPECT_DOUBLE_EQ(s.at(0), 300);
  EXPECT_DOUBLE_EQ(s.at(50), 150);
  EXPECT_DOUBLE_EQ(s.at(100), 0);
  EXPECT_DOUBLE_EQ(s.at(1000), 0) << "beyond the end";
}

TEST(axis_scale, places_what_is_logarithmic_by_ratios) {
  const axis_scale s({"", unit::count, scale::log10}, {1, 100}, ends::exact, 0, 200, 8);
  EXPECT_DOUBLE_EQ(s.at(10), 100);
  EXPECT_FALSE(s.has(0));
  EXPECT_FALSE(s.has(-1));
  EXPECT_FALSE(s.has(nan));
}

TEST(axis_scale, is_logarithmic_where_small_values_would_vanish) {
  const axis a{"", unit::nanoseconds, scale::suited};
  EXPECT_EQ(axis_scale(a, {10, 100}, ends::rounded, 0, 1, 8).by(), scale::linear);
  EXPECT_EQ(axis_scale(a, {10, 1000}, ends::rounded, 0, 1, 8).by(), scale::log10);
  EXPECT_EQ(axis_scale(a, {-10, 1000}, ends::rounded, 0, 1, 8).by(), scale::linear);
  EXPECT_EQ(axis_scale(a, {0, 10, 1000}, ends::rounded, 0, 1, 8).by(), scale::linear)
      << "a zero has a place there";
}

TEST(axis_scale, has_a_place_for_zero_before_logarithms) {
  const axis_scale s({"", unit::bytes, scale::log2}, {0, 8, 64}, ends::exact, 0, 100, 12);
  ASSERT_TRUE(s.has_zero());
  EXPECT_DOUBLE_EQ(s.at(0), 0);
  EXPECT_GT(s.at(8), 0);
  EXPECT_DOUBLE_EQ(s.at(64), 100);
  EXPECT_EQ(s.ticks().front(), 0);
}

TEST(axis_scale, has_some_length_for_one_value_for_none_and_for_missing_ones) {
  for (const scale by : {scale::suited, scale::linear, scale::log2, scale::log10}) {
    for (const numbers& values :
         {numbers{}, numbers{8}, numbers{0}, numbers{nan}, numbers{nan, 3}}) {
      for (const ends how : {ends::exact, ends::rounded}) {
        const axis_scale s({"", unit::bytes, by}, values, how, 0, 100, 8);
        EXPECT_LT(s.low(), s.high());
        EXPECT_FALSE(s.ticks().empty());
        for (const double v : values) {
          EXPECT_TRUE(std::isfinite(s.at(v)) || !s.has(v));
        }
      }
    }
  }
}

TEST(axis_scale, has_few_ticks_for_any_values) {
  constexpr double most = std::numeric_limits<double>::max();
  constexpr double least = std::numeric_limits<double>::denorm_min();
  for (const scale by : {scale::suited, scale::linear, scale::log2, scale::log10}) {
    for (const numbers& values :
         {numbers{least, 1}, numbers{least, least}, numbers{1, most}, numbers{-most, most},
          numbers{most, most}, numbers{least, most}, numbers{1e20, std::nextafter(1e20, most)}}) {
      for (const ends how : {ends::exact, ends::rounded}) {
        const axis_scale s({"", unit::nanoseconds, by}, values, how, 0, 100, 8);
        EXPECT_LT(s.low(), s.high());
        EXPECT_LE(s.ticks().size(), 20U);
        for (const double v : values) {
          EXPECT_TRUE((s.at(v) >= 0 && s.at(v) <= 100) || !s.has(v)) << v;
        }
      }
    }
  }
}

TEST(axis_scale, of_one_value_has_no_other_tick) {
  for (const scale by : {scale::linear, scale::log2, scale::log10}) {
    const axis_scale s({"", unit::count, by}, {64, 64}, ends::exact, 0, 100, 8);
    expect_near(s.ticks(), {64});
  }
}

TEST(axis_scale, rounded_ends_are_ticks) {
  for (const double top : {1.0, 7.0, 23.0, 99.0, 101.0, 12'345.0}) {
    for (const scale by : {scale::linear, scale::log10}) {
      const axis_scale s({"", unit::nanoseconds, by}, {top / 3, top}, ends::rounded, 0, 1, 8);
      EXPECT_GE(s.high(), top * (1 - 1e-9));
      EXPECT_NEAR(s.ticks().back(), s.high(), 1e-6 * s.high());
      EXPECT_NEAR(s.ticks().front(), s.low(), 1e-6 * s.high());
    }
  }
}

} // namespace
} // namespace farcall::tool
