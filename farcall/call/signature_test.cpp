// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/signature.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace farcall::test {

struct two_numbers {
  int a;
  int b;
};
struct long_inside {
  char before;
  long double value;
};
struct alignas(32) wide {
  float lanes[8];
};
struct alignas(32) wide_but_fixed {
  float lanes[8];
};
union any_of_two {
  int a;
  float b;
};

} // namespace farcall::test

template <>
inline constexpr bool farcall::has_fixed_layout<farcall::test::wide_but_fixed> = true;

namespace farcall::test {
namespace {

/// Returns the text after the name of the type.
template <class Signature>
std::string layouts() {
  const std::string text = signature_text<Signature>();
  return text.substr(text.find('|') + 1);
}

const std::string mantissa = "m" + std::to_string(std::numeric_limits<long double>::digits);
const std::string size_of_long =
    std::to_string(sizeof(long double)) + ":" + std::to_string(alignof(long double));
const std::string library{detail::library_mark};

TEST(signature_text, tells_sizes_and_alignments) {
  EXPECT_EQ(signature_text<double(double)>(), "FddE|8:8,8:8");
  EXPECT_EQ(layouts<void(int, char, short, bool)>(), "-,4:4,1:1,2:2,1:1");
  EXPECT_EQ(layouts<void(two_numbers)>(), "-,8:4" + library);
  EXPECT_EQ(layouts<void(std::vector<short>)>(), "-,{2:2}");
}

TEST(signature_text, marks_what_is_or_may_hold_a_long_double) {
  const std::string own = size_of_long + mantissa;
  EXPECT_EQ(layouts<long double(const long double&)>(), own + "," + own);
  EXPECT_EQ(layouts<void(std::vector<long double>)>(), "-,{" + own + "}");
  EXPECT_EQ(layouts<void(std::optional<std::vector<long double>>)>(), "-,{{" + own + "}}");
  for (const std::string& text :
       {layouts<void(std::complex<long double>)>(), layouts<void(std::array<long double, 3>)>(),
        layouts<void(std::array<std::complex<long double>, 1>)>(), layouts<void(long_inside)>(),
        layouts<void(std::array<long_inside, 2>)>(), layouts<void(wide)>()}) {
    EXPECT_THAT(text, ::testing::HasSubstr(mantissa)) << text;
  }
}

TEST(signature_text, marks_nothing_else) {
  EXPECT_EQ(layouts<void(wide_but_fixed)>(), "-,32:32");
  EXPECT_EQ(layouts<void(std::complex<double>)>(), "-,16:8");
  EXPECT_EQ(layouts<void(std::array<double, 2>)>(), "-,16:8");
  EXPECT_EQ(layouts<void(any_of_two)>(), "-,4:4" + library);
  EXPECT_EQ(layouts<void(std::nullptr_t)>(), "-,8:8");
}

TEST(callable_text, tells_what_the_callable_holds) {
  const auto nothing = [](int v) { return v; };
  const auto one = [a = 1](int v) { return a + v; };
  const auto two = [a = 1, b = 2L](int v) { return a + v + static_cast<int>(b); };
  using plain = int (*)(int);
  EXPECT_EQ((callable_text<plain, int(int)>()), "FiiE|4:4,4:4");
  EXPECT_EQ((callable_text<decltype(nothing), int(int)>()), "FiiE|4:4,4:4");
  EXPECT_EQ((callable_text<std::remove_const_t<decltype(one)>, int(int)>()),
            "FiiE|4:4,4:4;4:4" + library);
  EXPECT_EQ((callable_text<std::remove_const_t<decltype(two)>, int(int)>()),
            "FiiE|4:4,4:4;16:8" + library);
}

} // namespace
} // namespace farcall::test
