// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/way_choice.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace farcall::detail::test::way_choice_test {
namespace {

constexpr std::uint64_t bytes = 1 << 20;

/// Makes copies that take the given times; returns how many used each strategy.
std::array<unsigned, 2> copies(way_choice& choice, unsigned count,
                               std::array<std::uint64_t, 2> nanoseconds) {
  std::array<unsigned, 2> made{};
  for (unsigned i = 0; i < count; ++i) {
    const way_choice::turn now = choice.next();
    ++made[now.way];
    if (now.is_timed) choice.add(now.way, bytes, nanoseconds[now.way]);
  }
  return made;
}

TEST(way_choice, takes_the_faster_strategy_and_samples_the_other) {
  for (const std::size_t faster : {std::size_t{0}, std::size_t{1}}) {
    way_choice choice;
    std::array<std::uint64_t, 2> times{200'000, 200'000};
    times[faster] = 100'000;
    const auto at_first = copies(choice, 8, times);
    EXPECT_EQ(at_first[0], 4U);
    EXPECT_EQ(at_first[1], 4U);
    const auto later = copies(choice, 1024, times);
    EXPECT_GE(later[1 - faster], 8U);
    EXPECT_LE(later[1 - faster], 20U);
  }
}

TEST(way_choice, detects_that_the_other_has_become_faster) {
  way_choice choice;
  (void)copies(choice, 100, {100'000, 200'000});
  (void)copies(choice, 1000, {300'000, 200'000});
  EXPECT_GT(copies(choice, 100, {300'000, 200'000})[1], 90U);
}

TEST(way_choice, keeps_an_equally_fast_strategy) {
  way_choice choice;
  (void)copies(choice, 10, {100'000, 110'000});
  EXPECT_GT(copies(choice, 1000, {100'000, 97'000})[0], 900U);
}

TEST(way_choice, alternates_while_one_has_no_samples) {
  way_choice choice;
  std::array<unsigned, 2> made{};
  for (int i = 0; i < 40; ++i) {
    const way_choice::turn now = choice.next();
    ++made[now.way];
    if (now.way == 0) choice.add(now.way, bytes, 1000);
  }
  EXPECT_EQ(made[0], 20U);
  EXPECT_EQ(made[1], 20U);
}

TEST(way_choice, does_not_time_the_first_copy_after_a_change) {
  way_choice choice;
  for (std::size_t way = 0; way < 4; ++way) {
    for (std::uint64_t i = 0; i < way_choice::run_length; ++i) {
      const way_choice::turn now = choice.next();
      EXPECT_EQ(now.way, way % 2);
      EXPECT_EQ(now.is_timed, i != 0);
    }
  }
}

} // namespace
} // namespace farcall::detail::test::way_choice_test
