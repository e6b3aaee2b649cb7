// SPDX-License-Identifier: Apache-2.0

// Tests of aggregates with a pointer among their members, and of similar aggregates without one.

#include <farcall/call/addresses.hpp>
#include <farcall/call/pack.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <functional>
#include <vector>

namespace farcall::test {

struct cookie {
  void* mine;
};

} // namespace farcall::test

template <>
inline constexpr bool farcall::may_hold_pointers<farcall::test::cookie> = true;

namespace farcall::test {
namespace {

struct plain {
  int x;
  double y;
};
struct empty {};
struct with_pointer {
  int x;
  char* text;
};
struct with_function {
  std::array<int, 3> x;
  void (*function)(int);
};
struct with_member_pointer {
  int plain::* which;
};
struct nested {
  plain first;
  with_pointer second;
};
struct derived : plain {
  int* more;
};
struct in_array {
  char name[8];
  std::array<with_pointer, 2> all;
};
struct behind_bits {
  unsigned a : 3;
  unsigned b : 4;
  const char* text;
};
struct behind_union {
  union {
    int i;
    float f;
  };
  void* address = nullptr;
};
struct behind_empty {
  empty nothing;
  int* p;
};
struct not_assignable {
  const int x;
  int* p;
  not_assignable& operator=(const not_assignable&) = delete;
};

TEST(aggregates, with_pointers_are_known) {
  EXPECT_TRUE(detail::has_pointer_member<with_pointer>());
  EXPECT_TRUE(detail::has_pointer_member<with_function>());
  EXPECT_TRUE(detail::has_pointer_member<with_member_pointer>());
  EXPECT_TRUE(detail::has_pointer_member<nested>());
  EXPECT_TRUE(detail::has_pointer_member<derived>());
  EXPECT_TRUE(detail::has_pointer_member<in_array>());
  EXPECT_TRUE(detail::has_pointer_member<behind_bits>());
  EXPECT_TRUE(detail::has_pointer_member<behind_union>());
  EXPECT_TRUE(detail::has_pointer_member<behind_empty>());
  EXPECT_FALSE(is_packable_v<with_pointer>);
  EXPECT_FALSE(is_packable_v<std::vector<nested>>);
  EXPECT_FALSE((is_packable_v<std::array<with_pointer, 2>>));
}

enum class letter : char { a };
struct from_pointer {
  // NOLINTNEXTLINE(google-explicit-constructor)
  from_pointer(const void* p) : is_null(p == nullptr) {}
  bool is_null;
};
struct from_anything {
  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  from_anything(const T& /*value*/) {}
  int x = 0;
};
struct no_default {
  explicit no_default(int v) : x(v) {}
  int x;
};
struct numbers {
  std::complex<double> z;
  std::chrono::nanoseconds t;
  bool b;
  letter l;
  std::byte raw;
  long double d;
  std::nullptr_t none;
  char text[40];
};
struct classes {
  from_pointer a;
  from_anything b;
  empty c;
  no_default d;
};

TEST(aggregates, without_pointers_are_packable) {
  EXPECT_TRUE(is_bitwise<plain>);
  EXPECT_TRUE(is_bitwise<empty>);
  EXPECT_TRUE(is_bitwise<numbers>);
  EXPECT_TRUE(is_bitwise<classes>);
  EXPECT_TRUE((is_bitwise<std::array<plain, 100>>));
  EXPECT_TRUE((is_bitwise<std::array<double, 0>>));
}

TEST(aggregates, are_sent_with_pointers_where_the_program_says_so) {
  EXPECT_TRUE(is_bitwise<cookie>);
  EXPECT_TRUE(is_packable_v<std::vector<cookie>>);
}

TEST(functors_of_the_standard, that_hold_pointers_are_known) {
  EXPECT_FALSE(is_packable_v<decltype(std::mem_fn(&plain::x))>);
  EXPECT_FALSE(is_packable_v<decltype(std::not_fn(static_cast<bool (*)()>(nullptr)))>);
  EXPECT_TRUE(is_packable_v<decltype(std::not_fn(std::less<int*>()))>);
  EXPECT_TRUE(is_packable_v<std::less<int*>>);
}

} // namespace
} // namespace farcall::test
