// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/call/pack_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::test {
namespace {

enum class reply : bool { no, yes };

struct nothing {};

struct point {
  double x;
  float y;
};

struct alignas(64) wide {
  std::uint8_t value[64];
};

/// Trivially copyable, but not default-constructible.
struct known {
  explicit known(int v) : value(v) {}
  int value;
};

/// Trivially copyable, but move-only.
struct handle {
  explicit handle(int v) : value(v) {}
  handle(const handle&) = delete;
  handle(handle&&) = default;
  handle& operator=(const handle&) = delete;
  handle& operator=(handle&&) = default;
  ~handle() = default;
  int value;
};

struct base {
  virtual ~base() = default;
};

/// Trivially copyable, but with a packer of its own.
struct celsius {
  double degrees;
};

struct half_packed {
  std::string text;
};

} // namespace
} // namespace farcall::test

template <>
struct farcall::packer<farcall::test::celsius> {
  static void pack(writer& w, const test::celsius& t) { w(t.degrees + 273.15); }
  static test::celsius unpack(reader& r) { return {r.read<double>() - 273.15}; }
};

template <>
struct farcall::packer<farcall::test::half_packed> {
  static void pack(writer& w, const test::half_packed& value) { w(value.text); }
};

namespace farcall::test {
namespace {

void erase(int* p) { delete p; }

static_assert(is_bitwise<int> && is_bitwise<const double> && is_bitwise<point> &&
              is_bitwise<std::complex<float>> && is_bitwise<std::bitset<7>> &&
              is_bitwise<std::array<point, 3>> && is_bitwise<std::chrono::milliseconds> &&
              is_bitwise<std::nullptr_t> && is_bitwise<handle> && is_bitwise<wide>);
// Types in which some bit patterns are no values, or which libraries lay out differently.
static_assert(!is_bitwise<std::optional<int>> && !is_bitwise<std::variant<int, char>> &&
              !is_bitwise<std::pair<int, int>> && !is_bitwise<std::tuple<int>> &&
              !is_bitwise<std::array<std::optional<int>, 2>>);
static_assert(!is_bitwise<celsius> && packable<celsius>);
static_assert(!is_bitwise<int&> && !is_bitwise<void> && !is_bitwise<int[2]>);

static_assert(!packable<int*> && !packable<const char*> && !packable<void (*)(int)> &&
              !packable<int point::*> && !packable<int&> && !packable<const int&> &&
              !packable<int&&> && !packable<void> && !packable<int[3]> && !packable<char[3]>);
static_assert(!packable<std::array<int*, 2>> && !packable<std::pair<int, int&>> &&
              !packable<std::tuple<int, const char*>> && !packable<std::optional<int*>>);
static_assert(!packable<std::shared_ptr<int>> && !packable<std::weak_ptr<int>> &&
              !packable<std::vector<std::shared_ptr<int>>> && !packable<std::unique_ptr<base>> &&
              !packable<std::unique_ptr<int[]>> && packable<std::unique_ptr<int>>);
// The standard library has classes that can be deleters besides default_delete.
static_assert(!packable<std::unique_ptr<int, std::function<void(int*)>>> &&
              !packable<std::unique_ptr<int, std::integral_constant<void (*)(int*), &erase>>> &&
              !packable<std::unique_ptr<int, std::default_delete<const int>>> &&
              packable<std::unique_ptr<const int>>);
static_assert(!packable<std::span<int>> && !packable<std::span<const std::string>> &&
              !packable<std::span<const wide>> && packable<std::span<const point>> &&
              packable<std::vector<wide>>);
static_assert(!packable<std::reference_wrapper<int>> && !packable<std::initializer_list<int>> &&
              !packable<std::error_code> && !packable<std::vector<int>::iterator> &&
              !packable<std::atomic_ref<int>> && !packable<std::source_location> &&
              !packable<std::pmr::polymorphic_allocator<int>> && !packable<std::function<void()>> &&
              !packable<base> && !packable<half_packed>);

static_assert(has_views<std::string_view> && has_views<std::span<const int>> &&
              has_views<std::vector<std::string_view>> && has_views<const std::string_view> &&
              has_views<std::tuple<int, std::optional<std::span<const char>>>>);
static_assert(!has_views<std::string> && !has_views<int> && !has_views<celsius> &&
              !has_views<std::vector<std::vector<int>>>);

TEST(bitwise_layout, offsets_are_in_order_of_declaration) {
  using layout = bitwise_layout<char, double, nothing, int, wide>;
  static_assert(layout::count == 5);
  static_assert(layout::offset(0) == 0 && layout::offset(1) == 8 && layout::offset(3) == 16);
  static_assert(layout::offset(4) == 32 && layout::size == 96);
  static_assert(bitwise_layout<>::size == 0 && bitwise_layout<nothing, std::nullptr_t>::size == 0);
}

template <class... T>
void expect_layout_of_writer(const T&... values) {
  using layout = bitwise_layout<T...>;
  const body by_writer = packed(values...);
  ASSERT_EQ(by_writer.size(), layout::size);
  body by_layout(layout::size);
  layout::store(by_layout.data(), values...);
  EXPECT_EQ(by_writer.copy(), by_layout.copy());
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    // Compares the packed bytes of loaded values, because the types need no operator==.
    const body again = packed(layout::template load<I>(by_layout.data())...);
    EXPECT_EQ(by_writer.copy(), again.copy());
  }(std::index_sequence_for<T...>{});
}

TEST(bitwise_layout, agrees_with_the_writer) {
  expect_layout_of_writer();
  expect_layout_of_writer(1);
  expect_layout_of_writer(nothing{});
  expect_layout_of_writer('a', 2.0);
  expect_layout_of_writer('a', nothing{}, 'b', nullptr, short{3});
  expect_layout_of_writer(true, 1.0F, 'c', std::uint64_t{4}, reply::yes);
  expect_layout_of_writer('x', wide{}, 'y', wide{});
  expect_layout_of_writer(char{1}, std::array<short, 3>{1, 2, 3}, std::bitset<9>(0x155),
                          std::complex<double>(1, 2), 'z');
  expect_layout_of_writer(std::chrono::milliseconds(5), 'q', std::array<std::byte, 17>{}, 7L);
}

TEST(bitwise_layout, gaps_are_zero) {
  alignas(16) std::array<std::byte, 24> bytes{};
  bytes.fill(std::byte{0xee});
  bitwise_layout<char, double, char>::store(bytes.data(), 'a', 1.0, 'b');
  for (std::size_t i = 1; i != 8; ++i)
    EXPECT_EQ(bytes[i], std::byte{0}) << i;
  EXPECT_EQ(bytes[17], std::byte{0xee});
}

TEST(bitwise_layout, takes_types_that_only_move_or_have_no_default) {
  using layout = bitwise_layout<known, handle>;
  alignas(16) std::array<std::byte, layout::size> bytes{};
  layout::store(bytes.data(), known(4), handle(5));
  EXPECT_EQ(layout::load<0>(bytes.data()).value, 4);
  EXPECT_EQ(layout::load<1>(bytes.data()).value, 5);
}

template <class F>
[[nodiscard]] int call_a_copy(const F& f) {
  const body bytes = packed(f);
  return bytes.read().template read<F>()(10);
}

TEST(bitwise_layout, takes_closures) {
  int one = 1;
  double two = 2;
  EXPECT_EQ(call_a_copy([one, two](int x) { return x + one + static_cast<int>(two); }), 13);
  EXPECT_EQ(call_a_copy([](int x) { return x; }), 10);
  const auto adds_nothing = [](int x) { return x; };
  static_assert(bitwise_layout<decltype(adds_nothing), int>::size == sizeof(int));
}

TEST(load_bitwise, needs_no_alignment_for_values_without_checks) {
  std::array<std::byte, 9> bytes{};
  store_bitwise(bytes.data() + 1, 2.5);
  EXPECT_EQ(load_bitwise<double>(bytes.data() + 1), 2.5);
}

TEST(load_bitwise, refuses_a_byte_that_is_no_bool) {
  for (const unsigned value : {0U, 1U}) {
    const auto byte = static_cast<std::byte>(value);
    EXPECT_EQ(load_bitwise<bool>(&byte), value == 1);
    EXPECT_EQ(load_bitwise<reply>(&byte), static_cast<reply>(value == 1));
  }
  for (const unsigned value : {2U, 3U, 127U, 128U, 255U}) {
    const auto byte = static_cast<std::byte>(value);
    EXPECT_THROW(static_cast<void>(load_bitwise<bool>(&byte)), malformed_message) << value;
    EXPECT_THROW(static_cast<void>(load_bitwise<reply>(&byte)), malformed_message) << value;
    const std::array<std::byte, 3> three{std::byte{0}, std::byte{1}, byte};
    using flags = std::array<bool, 3>;
    EXPECT_THROW(static_cast<void>(load_bitwise<flags>(three.data())), malformed_message) << value;
  }
}

TEST(load_bitwise, refuses_bits_past_the_end_of_a_bitset) {
  std::uint64_t bits = 0x1f;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
  EXPECT_EQ(load_bitwise<std::bitset<5>>(bytes).count(), 5U);
  bits = 0x3f;
  EXPECT_THROW(static_cast<void>(load_bitwise<std::bitset<5>>(bytes)), malformed_message);
  bits = ~std::uint64_t{0};
  EXPECT_EQ(load_bitwise<std::bitset<64>>(bytes).count(), 64U);
}

} // namespace
} // namespace farcall::test
