// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/call/pack_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::test::pack_test {
namespace {

struct person {
  std::string name;
  std::vector<int> scores;
  bool operator==(const person&) const = default;
};

struct label {
  std::string_view text;
  int size;
};

struct link {
  int value;
  std::unique_ptr<link> next;
};

struct silent {
  std::string unused;
};

struct alignas(64) wide {
  std::uint8_t value[64];
};

struct known {
  explicit known(int v) : value(v) {}
  int value;
};

/// Type whose throwing constructor leaves a std::variant valueless.
struct brittle {
  brittle() = default;
  explicit brittle(int /*anything*/) { throw std::runtime_error("broke"); }
  std::string text;
};

/// Packs more bytes on the second pass than on the first.
struct fickle {
  mutable int passes = 0;
  std::string text;
};

} // namespace
} // namespace farcall::test::pack_test

template <>
struct farcall::packer<farcall::test::pack_test::person> {
  static void pack(writer& w, const test::pack_test::person& p) { w(p.name, p.scores); }
  static test::pack_test::person unpack(reader& r) {
    auto name = r.read<std::string>();
    return {std::move(name), r.read<std::vector<int>>()};
  }
};

template <>
struct farcall::packer<farcall::test::pack_test::label> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const test::pack_test::label& l) { w(l.text, l.size); }
  static test::pack_test::label unpack(reader& r) {
    const auto text = r.read<std::string_view>();
    return {text, r.read<int>()};
  }
};

template <>
struct farcall::packer<farcall::test::pack_test::link> {
  static void pack(writer& w, const test::pack_test::link& l) { w(l.value, l.next); }
  static test::pack_test::link unpack(reader& r) {
    test::pack_test::link result{r.read<int>(), nullptr};
    result.next = r.read<std::unique_ptr<test::pack_test::link>>();
    return result;
  }
};

template <>
struct farcall::packer<farcall::test::pack_test::silent> {
  static void pack(writer&, const test::pack_test::silent&) {}
  static test::pack_test::silent unpack(reader&) { return {}; }
};

template <>
struct farcall::packer<farcall::test::pack_test::brittle> {
  static void pack(writer&, const test::pack_test::brittle&) {}
  static test::pack_test::brittle unpack(reader&) { return {}; }
};

template <>
struct farcall::packer<farcall::test::pack_test::fickle> {
  static void pack(writer& w, const test::pack_test::fickle& value) {
    for (int i = 0; i <= value.passes; ++i)
      w(i);
    ++value.passes;
  }
  static test::pack_test::fickle unpack(reader&) { return {}; }
};

namespace farcall::test::pack_test {
namespace {

TEST(writer, counts_what_it_would_write) {
  EXPECT_EQ(packed_size(), 0U);
  EXPECT_EQ(packed_size('a', 1.0), 16U);
  EXPECT_EQ(packed_size(std::string("hello")), 13U);
  EXPECT_EQ(packed_size(std::vector<double>(3)), 32U);
  EXPECT_EQ(packed_size(std::tuple<>{}, std::monostate{}, nullptr), 0U);
}

TEST(writer, omits_padding_before_zero_bytes) {
  auto w = writer::counting();
  w('a');
  w.bytes(nullptr, 0, 16);
  EXPECT_EQ(w.size(), 1U);
}

TEST(writer, padding_is_zero) {
  const body bytes = packed('a', std::span<const double>(), 'b', 7);
  for (std::size_t i = 1; i != 8; ++i)
    EXPECT_EQ(bytes.data()[i], std::byte{0}) << i;
  for (std::size_t i = 17; i != 20; ++i)
    EXPECT_EQ(bytes.data()[i], std::byte{0}) << i;
}

TEST(writer, never_writes_past_its_capacity) {
  body bytes(8);
  writer w(bytes.data(), bytes.size());
  w(1);
  EXPECT_THROW(w(1.0), error);
  EXPECT_THROW(w(std::array<char, 5>{}), error);
  w(2);
  EXPECT_THROW(w('a'), error);
}

TEST(writer, refuses_a_packer_that_changes_its_mind) {
  EXPECT_THROW(static_cast<void>(packed(fickle{})), error);
}

TEST(writer, refuses_a_variant_without_a_value) {
  std::variant<std::string, brittle> value;
  EXPECT_THROW(value.emplace<1>(0), std::runtime_error);
  ASSERT_TRUE(value.valueless_by_exception());
  EXPECT_THROW(static_cast<void>(packed(value)), error);
}

TEST(reader, gives_back_raw_bytes) {
  body bytes(24);
  writer w(bytes.data());
  w.bytes("xyz", 3);
  w.bytes("12345678", 8, 16);
  EXPECT_EQ(w.size(), 24U);
  auto r = bytes.read();
  EXPECT_EQ(*r.bytes(3), std::byte{'x'});
  EXPECT_EQ(r.remaining(), 21U);
  EXPECT_EQ(r.bytes(8, 16), bytes.data() + 16);
  EXPECT_EQ(r.position(), 24U);
  EXPECT_THROW(static_cast<void>(r.bytes(1)), malformed_message);
  EXPECT_NO_THROW(static_cast<void>(r.bytes(0, 16)));
}

TEST(reader, is_not_misled_by_huge_lengths) {
  body bytes(24);
  for (const std::size_t n : {std::size_t{25}, SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1}) {
    auto r = bytes.read();
    static_cast<void>(r.bytes(1));
    EXPECT_THROW(static_cast<void>(r.bytes(n, 1)), malformed_message);
    EXPECT_THROW(static_cast<void>(r.bytes(n, 16)), malformed_message);
    EXPECT_EQ(r.position(), 1U);
  }
}

TEST(reader, reads_only_empty_values_from_an_empty_message) {
  reader r(nullptr, 0);
  EXPECT_THROW(static_cast<void>(r.read<char>()), malformed_message);
  EXPECT_THROW(static_cast<void>(r.read<std::string>()), malformed_message);
  EXPECT_NO_THROW(static_cast<void>(r.read<std::monostate>()));
  EXPECT_NO_THROW(static_cast<void>(r.read<std::tuple<>>()));
  EXPECT_EQ(r.read<std::nullptr_t>(), nullptr);
}

TEST(reader, errors_say_what_was_wrong_and_what_to_do) {
  const body bytes = packed(std::uint64_t{1} << 63U);
  try {
    static_cast<void>(bytes.read().read<std::vector<double>>());
    FAIL();
  } catch (const malformed_message& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("9223372036854775808 elements"), std::string::npos) << what;
    EXPECT_NE(what.find("check that both programs"), std::string::npos) << what;
  }
}

TEST(views, point_into_the_message) {
  const std::vector<double> numbers{1, 2, 3};
  const body bytes = packed('a', std::string_view("text"), 'b', std::span(numbers),
                            std::vector<std::string_view>{"one", "two"});
  const auto inside = [&](const void* at, std::size_t n) {
    const auto* const begin = static_cast<const std::byte*>(at);
    return begin >= bytes.data() && begin + n <= bytes.data() + bytes.size();
  };
  auto r = bytes.read();
  static_cast<void>(r.read<char>());
  const auto text = r.read<std::string_view>();
  EXPECT_EQ(text, "text");
  EXPECT_TRUE(inside(text.data(), text.size()));
  static_cast<void>(r.read<char>());
  const auto view = r.read<std::span<const double>>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data()) % alignof(double), 0U);
  EXPECT_TRUE(inside(view.data(), view.size_bytes()));
  EXPECT_EQ(view[2], 3);
  for (const auto word : r.read<std::vector<std::string_view>>()) {
    EXPECT_TRUE(inside(word.data(), word.size()));
  }
}

TEST(views, are_aligned_for_their_elements) {
  const std::array<char, 3> chars{};
  const std::array<long double, 2> wide_numbers{1, 2};
  const std::array<std::uint16_t, 1> shorts{9};
  for (std::size_t shift = 0; shift != 17; ++shift) {
    const std::string filler(shift, 'x');
    const body bytes = packed(filler, std::span<const char>(chars), std::span(wide_numbers), 'c',
                              std::span(shorts), std::u32string_view(U"abc"));
    auto r = bytes.read();
    static_cast<void>(r.read<std::string>());
    static_cast<void>(r.read<std::span<const char>>());
    const auto a = r.read<std::span<const long double>>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % alignof(long double), 0U);
    EXPECT_EQ(a[1], 2);
    static_cast<void>(r.read<char>());
    EXPECT_EQ(r.read<std::span<const std::uint16_t>>()[0], 9);
    EXPECT_EQ(r.read<std::u32string_view>(), U"abc");
  }
}

TEST(views, without_elements_are_empty_and_text_is_never_null) {
  const body bytes =
      packed('a', std::string_view(), std::span<const double>(), std::wstring_view());
  auto r = bytes.read();
  static_cast<void>(r.read<char>());
  const auto text = r.read<std::string_view>();
  EXPECT_TRUE(text.empty());
  ASSERT_NE(text.data(), nullptr);
  EXPECT_TRUE(r.read<std::span<const double>>().empty());
  EXPECT_NE(r.read<std::wstring_view>().data(), nullptr);
}

TEST(views, with_fixed_extent_need_that_many_elements) {
  const std::array<int, 3> numbers{1, 2, 3};
  const body three = packed(std::span(numbers));
  EXPECT_EQ((three.read().read<std::span<const int, 3>>()[2]), 3);
  EXPECT_THROW((static_cast<void>(three.read().read<std::span<const int, 2>>())),
               malformed_message);
  EXPECT_THROW((static_cast<void>(three.read().read<std::span<const int, 4>>())),
               malformed_message);
}

template <class T>
void expect_count_is_checked(const char* name) {
  for (const std::uint64_t count :
       {std::uint64_t{1} << 63U, UINT64_MAX, UINT64_MAX / 8, std::uint64_t{1} << 32U,
        (std::uint64_t{1} << 61U) + 1, (std::uint64_t{1} << 60U) + 1, std::uint64_t{9 * 8}}) {
    const body bytes = packed(count, std::uint64_t{0});
    EXPECT_THROW(static_cast<void>(bytes.read().read<T>()), malformed_message)
        << name << " of " << count;
  }
}

TEST(counts, are_checked_before_memory_is_asked_for) {
  expect_count_is_checked<std::string>("string");
  expect_count_is_checked<std::u32string>("u32string");
  expect_count_is_checked<std::string_view>("string_view");
  expect_count_is_checked<std::filesystem::path>("path");
  expect_count_is_checked<std::vector<double>>("vector<double>");
  expect_count_is_checked<std::vector<std::monostate>>("vector<monostate>");
  expect_count_is_checked<std::vector<std::string>>("vector<string>");
  expect_count_is_checked<std::vector<bool>>("vector<bool>");
  expect_count_is_checked<std::vector<std::tuple<>>>("vector<tuple<>>");
  expect_count_is_checked<std::vector<std::vector<std::tuple<>>>>("vector<vector<tuple<>>>");
  expect_count_is_checked<std::vector<silent>>("vector<silent>");
  expect_count_is_checked<std::vector<wide>>("vector<wide>");
  expect_count_is_checked<std::span<const double>>("span");
  expect_count_is_checked<std::deque<int>>("deque");
  expect_count_is_checked<std::list<std::monostate>>("list");
  expect_count_is_checked<std::set<std::monostate>>("set");
  expect_count_is_checked<std::map<int, int>>("map");
  expect_count_is_checked<std::multimap<std::monostate, std::monostate>>("multimap");
  expect_count_is_checked<std::unordered_map<int, int>>("unordered_map");
}

/// Counts the bytes that a container allocates.
template <class T>
struct counting_allocator {
  using value_type = T;
  static inline std::size_t bytes = 0;

  counting_allocator() = default;
  template <class U>
  explicit(false) counting_allocator(const counting_allocator<U>&) {}

  T* allocate(std::size_t n) {
    bytes += n * sizeof(T);
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* at, std::size_t n) { std::allocator<T>().deallocate(at, n); }
  bool operator==(const counting_allocator&) const { return true; }
};

TEST(counts, claim_no_more_memory_than_there_are_bytes) {
  // 1000 strings are claimed, and that many bytes exist, but the first string is too long.
  body bytes(1008);
  std::memset(bytes.data(), 0xff, bytes.size());
  const std::uint64_t claimed = 1000;
  std::memcpy(bytes.data(), &claimed, sizeof claimed);
  using strings = std::vector<std::string, counting_allocator<std::string>>;
  counting_allocator<std::string>::bytes = 0;
  EXPECT_THROW(static_cast<void>(bytes.read().read<strings>()), malformed_message);
  EXPECT_LE(counting_allocator<std::string>::bytes, 1000U);
  EXPECT_GT(counting_allocator<std::string>::bytes, 900U);
}

TEST(containers, pack_empty_values_in_a_byte_each) {
  EXPECT_EQ(packed_size(std::vector<std::tuple<>>(5)), 13U);
  EXPECT_EQ(packed_size(std::vector<silent>(5)), 13U);
  EXPECT_EQ(packed_size(std::vector<std::monostate>(5)), 13U);
  EXPECT_EQ(packed(std::vector<silent>(5)).read().read<std::vector<silent>>().size(), 5U);
}

TEST(containers, pack_doubles_as_one_block) {
  const std::vector<double> numbers{1, 2, 3};
  const body bytes = packed(numbers);
  std::vector<double> copies(3);
  std::memcpy(copies.data(), bytes.data() + 8, 24);
  EXPECT_EQ(copies, numbers);
  // All sequences have one format.
  EXPECT_EQ(bytes.copy(), packed(std::deque<double>{1, 2, 3}).copy());
  EXPECT_EQ(bytes.copy(), packed(std::list<double>{1, 2, 3}).copy());
  EXPECT_EQ(bytes.copy(), packed(std::span(numbers)).copy());
}

TEST(containers, take_overaligned_and_undefaulted_elements) {
  std::vector<wide> values(3);
  values[2].value[63] = 7;
  const body bytes = packed('a', values);
  auto r = bytes.read();
  static_cast<void>(r.read<char>());
  const auto copies = r.read<std::vector<wide>>();
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[2].value[63], 7);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copies.data()) % 64, 0U);

  const body others = packed(std::vector<known>{known(3)}, std::deque<known>{known(4)},
                             std::optional<known>(5), std::map<int, known>{{1, known(6)}});
  r = others.read();
  EXPECT_EQ(r.read<std::vector<known>>()[0].value, 3);
  EXPECT_EQ(r.read<std::deque<known>>()[0].value, 4);
  EXPECT_EQ(r.read<std::optional<known>>()->value, 5);
  EXPECT_EQ((r.read<std::map<int, known>>().at(1).value), 6);
}

TEST(containers, with_a_repeated_key_are_refused) {
  using entry = std::pair<int, int>;
  const body twice = packed(std::vector<entry>{{1, 2}, {1, 3}});
  EXPECT_THROW((static_cast<void>(twice.read().read<std::map<int, int>>())), malformed_message);
  EXPECT_THROW((static_cast<void>(twice.read().read<std::unordered_map<int, int>>())),
               malformed_message);
  EXPECT_EQ((twice.read().read<std::multimap<int, int>>().count(1)), 2U);
}

TEST(containers, multimaps_keep_the_order_of_equal_keys) {
  const std::multimap<int, std::string> values{{1, "b"}, {1, "a"}, {0, "z"}, {1, "c"}};
  EXPECT_EQ((packed(values).read().read<std::multimap<int, std::string>>()), values);
}

TEST(containers, vector_of_bool_packs_eight_to_a_byte) {
  const std::vector<bool> flags{true, false, false, true, false, false, false, false, true};
  const body bytes = packed(flags);
  EXPECT_EQ(bytes.size(), 10U);
  EXPECT_EQ(bytes.data()[8], std::byte{0x09});
  EXPECT_EQ(bytes.read().read<std::vector<bool>>(), flags);
}

TEST(choices, refuse_flags_and_indices_that_do_not_exist) {
  for (const unsigned flag : {2U, 0x80U, 0xffU}) {
    const body bytes = packed(static_cast<std::byte>(flag), std::array<std::byte, 15>{});
    EXPECT_THROW(static_cast<void>(bytes.read().read<std::optional<int>>()), malformed_message);
    EXPECT_THROW(static_cast<void>(bytes.read().read<std::unique_ptr<int>>()), malformed_message);
  }
  for (const unsigned index : {2U, 3U, 256U, 0xffffU}) {
    const body bytes = packed(static_cast<std::uint16_t>(index), std::uint64_t{0});
    using two = std::variant<int, char>;
    EXPECT_THROW(static_cast<void>(bytes.read().read<two>()), malformed_message) << index;
  }
}

TEST(user_types, use_their_packer_alone_and_in_containers) {
  const person ada{"Ada", {1, 2, 3}};
  EXPECT_EQ(packed(ada).read().read<person>(), ada);
  const std::map<int, std::optional<person>> people{{1, ada}, {2, std::nullopt}};
  EXPECT_EQ((packed(people).read().read<std::map<int, std::optional<person>>>()), people);
}

TEST(user_types, may_refer_into_the_message) {
  static_assert(has_views<label> && has_views<std::vector<label>> && !has_views<person>);
  const body bytes = packed(label{"hello", 5});
  const auto copy = bytes.read().read<label>();
  EXPECT_EQ(copy.text, "hello");
  EXPECT_GE(static_cast<const void*>(copy.text.data()), static_cast<const void*>(bytes.data()));
}

[[nodiscard]] std::unique_ptr<link> chain(std::size_t length) {
  std::unique_ptr<link> first;
  for (std::size_t i = 0; i != length; ++i) {
    first = std::make_unique<link>(static_cast<int>(i), std::move(first));
  }
  return first;
}

TEST(nesting, is_bounded_on_the_way_out) {
  // Two levels per element: the pointer and the link.
  const auto longest = packed(chain(max_nesting / 2 - 1));
  EXPECT_NE(longest.read().read<std::unique_ptr<link>>(), nullptr);
  EXPECT_THROW(static_cast<void>(packed_size(chain(max_nesting))), error);
}

TEST(nesting, is_bounded_on_the_way_in) {
  // A flag and a link of value 0, repeated to the end.
  body bytes(1 << 20);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::array<std::uint8_t, 8> link_and_flag{1, 0, 0, 0, 0, 0, 0, 0};
    std::memcpy(bytes.data() + i, link_and_flag.data(), 8);
  }
  EXPECT_THROW(static_cast<void>(bytes.read().read<std::unique_ptr<link>>()), malformed_message);
}

TEST(nesting, counts_levels_and_not_values) {
  const std::vector<std::vector<std::string>> many(3, std::vector<std::string>(2 * max_nesting));
  EXPECT_EQ(packed(many).read().read<std::vector<std::vector<std::string>>>(), many);
}

} // namespace
} // namespace farcall::test::pack_test
