// SPDX-License-Identifier: Apache-2.0
#include "tests/sanitizer.hpp"

#include <farcall/async/call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::test::call_values_test {
namespace {

struct person {
  std::string name;
  std::map<std::string, int> marks;
  bool operator==(const person&) const = default;
};

/// Counts the runs of its packer, on each side.
struct counted {
  int value = 0;
};

} // namespace
} // namespace farcall::test::call_values_test

template <>
struct farcall::packer<farcall::test::call_values_test::person> {
  static void pack(writer& w, const test::call_values_test::person& p) { w(p.name, p.marks); }
  static test::call_values_test::person unpack(reader& r) {
    auto name = r.read<std::string>();
    return {std::move(name), r.read<std::map<std::string, int>>()};
  }
};

template <>
struct farcall::packer<farcall::test::call_values_test::counted> {
  static void pack(writer& w, const test::call_values_test::counted& c) {
    if (c.value < 0) throw std::range_error("a negative value cannot be packed");
    w(c.value);
  }
  static test::call_values_test::counted unpack(reader& r) {
    test::call_values_test::counted c{r.read<int>()};
    if (c.value == 13) throw std::range_error("13 cannot be unpacked");
    return c;
  }
};

namespace farcall::test::call_values_test {
namespace {

using ::testing::HasSubstr;
using byte_list = std::vector<std::uint8_t>;

class values : public job_test {
 protected:
  /// Returns the value that comes back when the target gets `v` and returns it.
  template <class T>
  T there_and_back(T v) {
    return sync(target_, [](T there) { return there; }, std::move(v));
  }
};

byte_list pattern(std::size_t bytes) {
  byte_list made(bytes);
  std::uint32_t state = static_cast<std::uint32_t>(bytes) * 2654435761U + 1;
  for (std::uint8_t& b : made) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::uint8_t>(state >> 24);
  }
  return made;
}

byte_list inverted(byte_list v) {
  std::reverse(v.begin(), v.end());
  for (std::uint8_t& b : v)
    b = static_cast<std::uint8_t>(~b);
  return v;
}

// ---- any size -----------------------------------------------------------------------------------

TEST_F(values, sizes_around_every_limit) {
  // Limits: a line, a result kept in the future itself, the stack's copy of views, a record, a
  // ring.
  for (const std::size_t limit : {0U, 16U, 48U, 64U, 1024U, 4096U, 16'384U, 65'536U, 262'144U}) {
    for (std::size_t n = limit < 40 ? 0 : limit - 40; n <= limit + 8; ++n) {
      const byte_list sent = pattern(n);
      ASSERT_EQ(sync(target_, inverted, sent), inverted(sent)) << n << " bytes";
    }
  }
}

TEST_F(values, many_mebibytes) {
  // Sanitizers check each byte.
  const std::size_t largest = under_sanitizer ? 20U << 20 : 64U << 20;
  for (const std::size_t n : {std::size_t{1'000'000}, (std::size_t{16} << 20) + 1, largest}) {
    const byte_list sent = pattern(n);
    const byte_list got = sync(target_, inverted, sent);
    ASSERT_TRUE(got == inverted(sent)) << n << " bytes";
  }
}

TEST_F(values, large_argument_small_result_and_the_other_way_round) {
  const byte_list sent = pattern(20U << 20);
  const auto sum = [](const byte_list& v) { return std::accumulate(v.begin(), v.end(), 0ULL); };
  EXPECT_EQ(sync(target_, sum, sent), sum(sent));
  EXPECT_TRUE(sync(target_, pattern, std::size_t{20U << 20}) == sent);
}

TEST_F(values, large_values_give_their_memory_back) {
  job_options options = with_targets("shm");
  options.heap_bytes = 32U << 20;
  const job small(options);
  // With leaks, the memory would not suffice from the fifth call on.
  constexpr std::size_t bytes = 7U << 20;
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(sync(small.targets()[0], inverted, byte_list(bytes)).size(), bytes);
}

TEST_F(values, empty_values) {
  sync(target_, [] {});
  EXPECT_EQ(there_and_back(byte_list{}), byte_list{});
  EXPECT_EQ(there_and_back(std::string{}), "");
  struct empty {};
  (void)sync(target_, [](empty /*unused*/) { return empty{}; }, empty{});
  EXPECT_EQ(there_and_back(std::tuple<>{}), std::tuple<>{});
}

template <std::size_t N>
struct block {
  std::array<std::uint8_t, N> bytes;
};

template <std::size_t N>
block<N> shifted(block<N> b, std::uint8_t by) {
  for (std::uint8_t& v : b.bytes)
    v = static_cast<std::uint8_t>(v + by);
  return b;
}

template <std::size_t N>
void expect_block_arrives(const node& target) {
  block<N> sent;
  for (std::size_t i = 0; i < N; ++i)
    sent.bytes[i] = static_cast<std::uint8_t>(i * 7);
  const block<N> got = sync(target, shifted<N>, sent, std::uint8_t{9});
  const block<N> expected = shifted<N>(sent, 9);
  EXPECT_EQ(got.bytes, expected.bytes) << N;
  EXPECT_EQ(async(target, fn<&shifted<N>>, sent, std::uint8_t{9}).get().bytes, expected.bytes) << N;
}

TEST_F(values, trivially_copyable_blocks) {
  expect_block_arrives<1>(target_);
  expect_block_arrives<8>(target_);
  expect_block_arrives<47>(target_);
  expect_block_arrives<48>(target_);
  expect_block_arrives<49>(target_);
  expect_block_arrives<64>(target_);
  expect_block_arrives<1000>(target_);
  expect_block_arrives<16'351>(target_);
  expect_block_arrives<16'368>(target_);
  expect_block_arrives<16'384>(target_);
  expect_block_arrives<100'000>(target_);
}

TEST_F(values, over_aligned_values_are_aligned_there) {
  struct alignas(64) wide {
    std::array<double, 8> v;
  };
  const auto [aligned, sum] = sync(
      target_,
      [](std::int8_t first, const wide& w) {
        return std::pair(reinterpret_cast<std::uintptr_t>(&w) % 64 == 0,
                         std::accumulate(w.v.begin(), w.v.end(), static_cast<double>(first)));
      },
      std::int8_t{1}, wide{{1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_TRUE(aligned);
  EXPECT_EQ(sum, 37);
}

TEST_F(values, lanes_of_other_sizes) {
  for (const std::uint32_t lane_bytes : {4096U, 1U << 20}) {
    job_options options = with_targets("shm");
    options.lane_bytes = lane_bytes;
    job other(options);
    for (const std::size_t n : {0U, 1000U, 1020U, 1030U, 5000U, 262'100U, 262'150U, 3'000'000U}) {
      const byte_list sent = pattern(n);
      ASSERT_TRUE(sync(other.targets().front(), inverted, sent) == inverted(sent))
          << n << " bytes, lane of " << lane_bytes;
    }
  }
}

// ---- kinds of types -----------------------------------------------------------------------------

enum class colour : std::uint8_t { red, green };

TEST_F(values, arithmetic_types) {
  EXPECT_EQ(there_and_back(true), true);
  EXPECT_EQ(there_and_back('x'), 'x');
  EXPECT_EQ(there_and_back(std::int8_t{-7}), -7);
  EXPECT_EQ(there_and_back(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(there_and_back(1.25F), 1.25F);
  EXPECT_EQ(there_and_back(-0.1L), -0.1L);
  EXPECT_EQ(there_and_back(colour::green), colour::green);
  EXPECT_EQ(there_and_back(std::complex<double>(1, -2)), std::complex<double>(1, -2));
  EXPECT_EQ(there_and_back(nullptr), nullptr);
}

TEST_F(values, standard_types) {
  EXPECT_EQ(there_and_back(std::string(30'000, 's')), std::string(30'000, 's'));
  EXPECT_EQ(there_and_back(std::vector<std::string>{"a", "", "ccc"}),
            (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(there_and_back(std::vector<bool>{true, false, true}),
            (std::vector<bool>{true, false, true}));
  EXPECT_EQ(there_and_back(std::array<std::string, 2>{"x", "y"}),
            (std::array<std::string, 2>{"x", "y"}));
  EXPECT_EQ(there_and_back(std::deque<int>{1, 2}), (std::deque<int>{1, 2}));
  EXPECT_EQ(there_and_back(std::list<int>{1, 2}), (std::list<int>{1, 2}));
  EXPECT_EQ(there_and_back(std::set<std::string>{"q"}), (std::set<std::string>{"q"}));
  EXPECT_EQ(there_and_back(std::optional<std::string>{"o"}), std::optional<std::string>{"o"});
  EXPECT_EQ(there_and_back(std::optional<int>{}), std::nullopt);
  EXPECT_EQ(there_and_back(std::tuple(1, std::string("t"), 2.5)),
            std::tuple(1, std::string("t"), 2.5));
  EXPECT_EQ(there_and_back(std::pair(std::string("p"), 1)), std::pair(std::string("p"), 1));
  using either = std::variant<int, std::string, std::monostate>;
  EXPECT_EQ(there_and_back(either{"v"}), either{"v"});
  EXPECT_EQ(there_and_back(either{5}), either{5});
  EXPECT_EQ(there_and_back(std::map<std::string, std::vector<int>>{{"k", {1, 2}}}),
            (std::map<std::string, std::vector<int>>{{"k", {1, 2}}}));
  EXPECT_EQ(there_and_back(std::unordered_map<int, std::string>{{3, "u"}, {4, ""}}),
            (std::unordered_map<int, std::string>{{3, "u"}, {4, ""}}));
  EXPECT_EQ(there_and_back(std::chrono::microseconds(17)), std::chrono::microseconds(17));
  const auto now = std::chrono::system_clock::now();
  EXPECT_EQ(there_and_back(now), now);
  EXPECT_EQ(there_and_back(std::filesystem::path("/a/b c")), std::filesystem::path("/a/b c"));
}

TEST_F(values, unique_ptr_by_value) {
  auto sent = std::make_unique<std::string>("owned");
  const std::unique_ptr<std::string> got = sync(
      target_,
      [](std::unique_ptr<std::string> p) {
        *p += " there";
        return p;
      },
      std::move(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, "owned there");
  EXPECT_FALSE(sync(target_, [] { return std::unique_ptr<int>{}; }));
}

TEST_F(values, parameters_by_const_reference_and_rvalue_reference) {
  EXPECT_EQ(sync(
                target_, [](const std::string& a, const int& b) { return a + std::to_string(b); },
                "x", 7),
            "x7");
  EXPECT_EQ(sync(
                target_,
                [](std::string&& taken) {
                  std::string mine = std::move(taken);
                  return mine.size();
                },
                "moved"),
            5U);
}

TEST_F(values, results_by_reference_are_copied) {
  EXPECT_EQ(sync(target_,
                 []() -> const std::string& {
                   static const std::string text = "static text";
                   return text;
                 }),
            "static text");
}

TEST_F(values, user_type_with_packer) {
  const person ann{"ann", {{"maths", 1}, {"physics", 2}}};
  EXPECT_EQ(there_and_back(ann), ann);
  EXPECT_EQ(there_and_back(std::vector<person>(1000, ann)), std::vector<person>(1000, ann));
  EXPECT_EQ(sync(target_, [](const person& p) { return p.marks.at("physics"); }, ann), 2);
}

TEST_F(values, packer_that_throws_here) {
  const auto id = [](const counted& c) { return c.value; };
  EXPECT_THROW((void)sync(target_, id, counted{-1}), std::range_error);
  EXPECT_THROW(post(target_, id, counted{-1}), std::range_error);
  EXPECT_EQ(sync(target_, id, counted{4}), 4) << "the lane does not work any more";
  // A result that cannot be unpacked here.
  EXPECT_THROW((void)sync(target_, [](int v) { return counted{v}; }, 13), std::range_error);
  EXPECT_EQ(sync(target_, [](int v) { return counted{v}; }, 14).value, 14);
}

TEST_F(values, packer_that_throws_there) {
  const auto id = [](const counted& c) { return c.value; };
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)sync(target_, id, counted{13}); }),
              HasSubstr("13 cannot be unpacked"));
  EXPECT_THAT(text_thrown_by<remote_error>(
                  [&] { (void)sync(target_, [](int v) { return counted{v}; }, -2); }),
              HasSubstr("negative value"));
  // Arguments and results too large for a record.
  const auto long_id = [](const std::vector<counted>& v) { return v.size(); };
  std::vector<counted> many(20'000);
  EXPECT_EQ(sync(target_, long_id, many), many.size());
  many.back().value = 13;
  EXPECT_THROW((void)sync(target_, long_id, many), remote_error);
  many.back().value = -1;
  EXPECT_THROW((void)sync(target_, long_id, many), std::range_error);
  EXPECT_EQ(sync(target_, id, counted{5}), 5);
}

// ---- views --------------------------------------------------------------------------------------

double total(std::span<const double> v) { return std::accumulate(v.begin(), v.end(), 0.0); }
std::string reversed(std::string_view v) { return {v.rbegin(), v.rend()}; }

TEST_F(values, spans_small_and_large) {
  for (const std::size_t n :
       {0U, 1U, 100U, 126U, 127U, 128U, 129U, 2000U, 2047U, 2048U, 500'000U}) {
    std::vector<double> sent(n);
    std::iota(sent.begin(), sent.end(), 1.0);
    ASSERT_EQ(sync(target_, total, sent), total(sent)) << n;
    ASSERT_EQ(sync(target_, fn<&total>, std::span<const double>(sent)), total(sent)) << n;
  }
}

TEST_F(values, string_views_small_and_large) {
  for (const std::size_t n : {0U, 1U, 1000U, 1016U, 1024U, 1025U, 16'000U, 17'000U, 1U << 20}) {
    std::string sent(n, 'a');
    if (n > 0) sent.front() = 'z';
    ASSERT_TRUE(sync(target_, reversed, sent) == reversed(sent)) << n;
  }
}

TEST_F(values, views_survive_calls_made_by_their_handler) {
  // The ring's space is released before the handler runs, and is written again meanwhile.
  const auto check = [](std::string_view text, const node& back) {
    for (int i = 0; i < 1000; ++i)
      post(back, [](std::string_view) {}, std::string(900, '!'));
    (void)sync(back, [] { return 0; });
    return std::string(text);
  };
  for (const std::size_t n : {10U, 1000U, 1100U, 10'000U, 100'000U}) {
    const std::string text(n, 'k');
    std::vector<future<std::string>> all;
    for (int i = 0; i < 20; ++i)
      all.push_back(async(target_, check, text, job_.host()));
    for (auto& f : all)
      ASSERT_TRUE(f.get() == text) << n;
  }
}

TEST_F(values, containers_of_views) {
  const std::vector<std::string> words{"one", "", "three"};
  const std::vector<std::string_view> views(words.begin(), words.end());
  EXPECT_EQ(sync(
                target_,
                [](const std::vector<std::string_view>& all) {
                  std::string joined;
                  for (const std::string_view v : all)
                    joined.append(v).append("/");
                  return joined;
                },
                views),
            "one//three/");
}

TEST_F(values, nodes_as_arguments_and_results) {
  EXPECT_EQ(sync(target_, [](const node& n) { return n.id(); }, target_), target_.id());
  EXPECT_EQ(
      sync(target_, [](const node& n) { return sync(n, ::getpid); }, job_.host()), ::getpid());
  EXPECT_EQ(sync(target_, [] { return this_node(); }), target_);
  const std::vector<node> all{job_.host(), target_};
  EXPECT_EQ(sync(target_, [](const std::vector<node>& n) { return n.size(); }, all), 2U);
}

} // namespace
} // namespace farcall::test::call_values_test
