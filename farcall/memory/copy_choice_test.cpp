// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/copy_choice.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::copy_choice_test {
namespace {

constexpr std::size_t piece = std::size_t{512} << 10;

void copy_nothing(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) noexcept {}

constexpr std::array<copy_kernel, 3> three{
    {{"first", copy_nothing}, {"second", copy_nothing}, {"third", copy_nothing}}};

/// Calls next() `pieces` times, and reports ns[kernel] for each timed piece. Returns how many were
/// timed.
std::size_t take_turns(copy_choice& choice, int pieces, const std::array<std::uint64_t, 3>& ns) {
  std::size_t timed = 0;
  for (int i = 0; i < pieces; ++i) {
    const auto now = choice.next(piece);
    if (!now.is_timed) continue;
    ++timed;
    choice.add(now.kernel, piece, ns.at(now.kernel));
  }
  return timed;
}

constexpr int first_turns = 3 * static_cast<int>(copy_choice::first_samples);

TEST(copy_choice, takes_the_fastest_once_it_has_tried_all) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    copy_choice choice(three);
    std::array<std::uint64_t, 3> ns{90'000, 90'000, 90'000};
    ns.at(fastest) = 50'000;
    EXPECT_EQ(take_turns(choice, first_turns - 1, ns), first_turns - 1U);
    EXPECT_EQ(choice.chosen(), nullptr);
    take_turns(choice, 1, ns);
    EXPECT_EQ(choice.chosen(), &three.at(fastest));
    EXPECT_EQ(choice.next(1).kernel, fastest);
    EXPECT_DOUBLE_EQ(choice.rates().at(fastest).mib_per_second, 10'000);
  }
}

TEST(copy_choice, is_not_misled_by_slow_first_touches) {
  copy_choice choice(three);
  for (int i = 0; i < first_turns; ++i) {
    const auto now = choice.next(piece);
    ASSERT_TRUE(now.is_timed);
    // Half of the fastest kernel's pieces are in pages that were never touched.
    const bool is_slowed_down = now.kernel == 2 && i % 2 == 0;
    choice.add(now.kernel, piece, is_slowed_down ? 900'000 : 90'000 - 10'000 * now.kernel);
  }
  EXPECT_EQ(choice.chosen(), &three[2]);
}

TEST(copy_choice, times_all_kernels_now_and_then) {
  copy_choice choice(three);
  take_turns(choice, first_turns, {50'000, 60'000, 70'000});
  ASSERT_EQ(choice.chosen(), &three[0]);
  constexpr int more = 100 * static_cast<int>(copy_choice::timed_of);
  EXPECT_EQ(take_turns(choice, more, {50'000, 49'000, 70'000}), 100U);
  EXPECT_EQ(choice.chosen(), &three[0]) << "as good as the other";
  take_turns(choice, more, {50'000, 49'000, 20'000});
  EXPECT_EQ(choice.chosen(), &three[2]);
}

TEST(copy_choice, does_not_time_small_pieces) {
  copy_choice choice(three);
  for (int i = 0; i < 100; ++i) {
    const auto now = choice.next(copy_choice::min_timed - 1);
    EXPECT_FALSE(now.is_timed);
    EXPECT_EQ(now.kernel, 0U);
  }
  EXPECT_EQ(choice.rates().front().mib_per_second, 0);
}

TEST(copy_choice, uses_a_single_kernel_without_timing) {
  const std::span<const copy_kernel> all = three;
  copy_choice choice(all.first(1));
  EXPECT_EQ(choice.chosen(), three.data());
  EXPECT_FALSE(choice.next(piece).is_timed);
}

TEST(copy_choice, copies_every_byte) {
  copy_choice choice(copy_kernels());
  std::vector<std::uint32_t> from(piece / 4 + 3);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
  for (int i = 0; i < 100; ++i) {
    std::vector<std::uint32_t> to(from.size());
    choice.copy(to.data(), from.data(), 4 * from.size());
    ASSERT_EQ(to, from) << i;
  }
  ASSERT_NE(choice.chosen(), nullptr);
  const auto kernels = copy_kernels();
  EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(),
                          [&](const copy_kernel& k) { return &k == choice.chosen(); }));
}

} // namespace
} // namespace farcall::copy_choice_test
