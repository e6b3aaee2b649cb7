// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/call/pack_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bitset>
#include <chrono>
#include <complex>
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
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::test::pack_property_test {
namespace {

enum class colour : std::uint16_t { red, green };
enum class reply : bool { no, yes };

struct nothing {
  bool operator==(const nothing&) const = default;
};

struct point {
  double x;
  float y;
  bool operator==(const point&) const = default;
};

/// User type that contains strings and, through a vector of itself, any depth of them.
struct tree {
  std::string name;
  std::vector<tree> children;
  bool operator==(const tree&) const = default;
};

/// User type that packs no bytes.
struct silent {
  std::string unused;
  bool operator==(const silent&) const { return true; }
};

} // namespace
} // namespace farcall::test::pack_property_test

namespace farcall::test {

template <>
struct some<pack_property_test::point> {
  static pack_property_test::point value(random_source& random) {
    return {some_value<double>(random), some_value<float>(random)};
  }
};

template <>
struct some<pack_property_test::tree> {
  static pack_property_test::tree value(random_source& random) {
    pack_property_test::tree result{some_value<std::string>(random), {}};
    for (std::size_t n = below(random, 3); n > 1; --n)
      result.children.push_back(value(random));
    return result;
  }
};

template <>
struct some<pack_property_test::silent> {
  static pack_property_test::silent value(random_source&) { return {}; }
};

} // namespace farcall::test

template <>
struct farcall::packer<farcall::test::pack_property_test::tree> {
  static void pack(writer& w, const test::pack_property_test::tree& t) { w(t.name, t.children); }
  static test::pack_property_test::tree unpack(reader& r) {
    auto name = r.read<std::string>();
    return {std::move(name), r.read<std::vector<test::pack_property_test::tree>>()};
  }
};

template <>
struct farcall::packer<farcall::test::pack_property_test::silent> {
  static void pack(writer&, const test::pack_property_test::silent&) {}
  static test::pack_property_test::silent unpack(reader&) { return {}; }
};

namespace farcall::test::pack_property_test {
namespace {

/// Operations of the tests on one type. Only these depend on the type, which keeps the program
/// quick to compile.
struct type_case {
  std::string name;
  /// Makes a message with a random value.
  body (*make)(random_source&);
  /// Reads a value, and packs it again to use every part of it.
  void (*consume)(reader&);
  /// True if a random value is unchanged after packing between two chars and unpacking.
  bool (*survives)(random_source&);
};

template <class T>
[[gnu::noinline]] void write(writer& w, const T& value) {
  w(value);
}

template <class T>
[[gnu::noinline]] body pack_between(char before, const T& value, char behind) {
  auto counting = writer::counting();
  counting(before);
  write(counting, value);
  counting(behind);
  body result(counting.size());
  writer w(result.data(), result.size());
  w(before);
  write(w, value);
  w(behind);
  return result;
}

template <class T>
[[gnu::noinline]] T read_one(reader& r) {
  return r.read<T>();
}

template <class T>
[[nodiscard]] type_case case_of() {
  static_assert(packable<T>);
  return {.name = demangle(typeid(T).name()),
          .make =
              [](random_source& random) {
                const T value = some_value<T>(random);
                auto counting = writer::counting();
                write(counting, value);
                body result(counting.size());
                writer w(result.data(), result.size());
                write(w, value);
                return result;
              },
          .consume =
              [](reader& r) {
                const T value = read_one<T>(r);
                auto counting = writer::counting();
                write(counting, value);
              },
          .survives =
              [](random_source& random) {
                const T value = some_value<T>(random);
                const body bytes = pack_between('<', value, '>');
                auto r = bytes.read();
                if (r.read<char>() != '<') return false;
                const T copy = read_one<T>(r);
                return same(value, copy) && r.read<char>() == '>' && r.remaining() == 0;
              }};
}

using type_cases = std::vector<type_case>;

template <class... T>
[[nodiscard]] type_cases cases_of() {
  return {case_of<T>()...};
}

type_cases numbers() {
  return cases_of<bool, char, signed char, char8_t, wchar_t, short, unsigned, long, std::uint64_t,
                  float, double, long double, std::byte, colour, reply, std::nullptr_t, nothing,
                  std::monostate, point, std::complex<double>, std::bitset<1>, std::bitset<64>,
                  std::bitset<131>, std::array<int, 3>, std::array<bool, 5>, std::array<double, 0>,
                  std::chrono::nanoseconds, std::chrono::duration<double>,
                  std::chrono::system_clock::time_point, std::chrono::steady_clock::time_point>();
}

type_cases texts_and_sequences() {
  return cases_of<
      std::string, std::u8string, std::u16string, std::u32string, std::wstring, std::string_view,
      std::u16string_view, std::filesystem::path, std::vector<double>, std::vector<bool>,
      std::vector<nothing>, std::vector<std::nullptr_t>, std::vector<colour>,
      std::vector<std::array<bool, 3>>, std::vector<std::string>, std::vector<std::string_view>,
      std::vector<std::vector<char>>, std::vector<std::vector<bool>>, std::vector<std::tuple<>>,
      std::vector<silent>, std::vector<std::bitset<5>>, std::array<std::string, 3>,
      std::array<std::string, 20>, std::array<std::optional<int>, 2>, std::array<std::string, 0>,
      std::span<const double>, std::span<const point>, std::span<const nothing>,
      std::span<const bool>, std::deque<int>, std::deque<std::string>, std::list<short>,
      std::list<std::list<std::string>>, std::list<std::tuple<>>>();
}

type_cases maps_and_choices() {
  return cases_of<
      std::set<int>, std::set<std::string>, std::multiset<char>, std::unordered_set<std::string>,
      std::unordered_multiset<int>, std::map<int, double>,
      std::map<std::string, std::vector<std::string>>, std::map<std::string_view, int>,
      std::multimap<short, std::string>, std::unordered_map<std::string, int>,
      std::unordered_map<int, std::map<int, std::string>>, std::unordered_multimap<char, char>,
      std::set<std::tuple<>>, std::pair<int, double>, std::pair<char, std::string>,
      std::pair<const int, long>, std::tuple<>, std::tuple<int>, std::tuple<std::tuple<char>>,
      std::tuple<char, double, std::string, bool>, std::tuple<nothing, long, nothing>,
      std::optional<int>, std::optional<bool>, std::optional<std::string>,
      std::optional<std::optional<char>>, std::optional<std::monostate>, std::variant<int>,
      std::variant<std::monostate, int, std::string>, std::variant<int, int, bool>,
      std::variant<std::vector<int>, std::variant<char, std::string>>, std::unique_ptr<int>,
      std::unique_ptr<std::string>, std::unique_ptr<const double>,
      std::unique_ptr<std::unique_ptr<std::vector<bool>>>,
      std::vector<std::unique_ptr<std::string>>,
      std::map<std::string, std::unique_ptr<std::vector<std::optional<double>>>>,
      std::tuple<std::vector<std::variant<std::string, std::map<int, bool>>>, char,
                 std::span<const long double>>,
      tree, std::vector<tree>, std::optional<tree>, silent>();
}

class packing : public testing::TestWithParam<type_cases> {};

TEST_P(packing, round_trip) {
  random_source random(1);
  for (const auto& type : GetParam()) {
    for (int i = 0; i != 60; ++i)
      ASSERT_TRUE(type.survives(random)) << type.name;
  }
}

TEST_P(packing, cut_short_at_every_byte) {
  random_source random(2);
  for (const auto& type : GetParam()) {
    for (int i = 0; i != 6; ++i) {
      const body whole = type.make(random);
      for (std::size_t n = 0; n != whole.size(); ++n) {
        const body part = whole.first(n);
        auto r = part.read();
        ASSERT_THROW(type.consume(r), malformed_message)
            << type.name << ", " << n << " of " << whole.size() << " bytes";
      }
    }
  }
}

/// Reads values until the bytes end. Expects at most a malformed_message.
void consume_hostile(const type_case& type, const body& bytes) {
  auto r = bytes.read();
  try {
    for (std::size_t before = SIZE_MAX; r.remaining() != before;) {
      before = r.remaining();
      type.consume(r);
    }
  } catch (const malformed_message&) {
    return;
  }
}

TEST_P(packing, bytes_changed_at_random) {
  random_source random(3);
  for (const auto& type : GetParam()) {
    for (int i = 0; i != 300; ++i) {
      body bytes = type.make(random);
      if (bytes.size() == 0) continue;
      for (std::size_t changes = 1 + below(random, 4); changes != 0; --changes) {
        bytes.data()[below(random, bytes.size())] =
            random() % 2 == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
      }
      ASSERT_NO_THROW(consume_hostile(type, bytes)) << type.name;
    }
  }
}

TEST_P(packing, bytes_of_one_value_only) {
  for (const auto& type : GetParam()) {
    for (const int fill : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      for (const std::size_t size : {0U, 1U, 2U, 8U, 9U, 16U, 40U, 200U}) {
        body bytes(size);
        if (size != 0) std::memset(bytes.data(), fill, size);
        ASSERT_NO_THROW(consume_hostile(type, bytes)) << type.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(numbers, packing, testing::Values(numbers()));
INSTANTIATE_TEST_SUITE_P(texts_and_sequences, packing, testing::Values(texts_and_sequences()));
INSTANTIATE_TEST_SUITE_P(maps_and_choices, packing, testing::Values(maps_and_choices()));

} // namespace
} // namespace farcall::test::pack_property_test
