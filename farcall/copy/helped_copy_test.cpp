// SPDX-License-Identifier: Apache-2.0

// Copies of ordinary memory with the peer's help.
#include <farcall/copy/copy_test_support.hpp>

#include <tests/sanitizer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace farcall::test::helped_copy_test {
namespace {

class helped_copies : public copy_test {};

// Repeats until the target has helped in both directions; each copy must be whole.
TEST_F(helped_copies, arrive_whole_and_are_made_by_both_ends) {
  constexpr std::uint64_t most = 3 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, most + 1);
  const auto here = std::make_unique<std::uint8_t[]>(most + 1);
  std::uint64_t seed = 0;
  for (const bool is_put : {true, false}) {
    const std::uint64_t before = sync(target_, fn<&helped>);
    const bool is_helped = eventually([&] {
      // Lengths and addresses without alignment.
      ++seed;
      const std::uint64_t bytes = most - seed * 4097 % mib;
      const std::uint64_t odd = seed % 2;
      const std::span<std::uint8_t> mine(here.get() + odd, bytes);
      if (is_put) {
        fill(mine.data(), bytes, seed);
        put_sync(mine, there(address + 1 - odd, bytes));
        EXPECT_TRUE(sync(target_, fn<&holds_there>, address + 1 - odd, bytes, seed)) << bytes;
      } else {
        sync(target_, fn<&fill_there>, address + 1 - odd, bytes, seed);
        get_sync(there(address + 1 - odd, bytes), mine);
        EXPECT_TRUE(holds(mine.data(), bytes, seed)) << bytes;
      }
      return HasFailure() || sync(target_, fn<&helped>) != before;
    });
    EXPECT_TRUE(is_helped) << (is_put ? "put" : "get");
  }
}

TEST_F(helped_copies, need_no_help_of_a_busy_target) {
  constexpr std::uint64_t bytes = 5 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  const std::uint64_t flag =
      sync(target_, [] { return std::uint64_t{reinterpret_cast<std::uintptr_t>(&may_end)}; });
  std::vector<std::uint8_t> here(bytes);
  future<void> busy = async(target_, fn<&compute>);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    fill(here.data(), bytes, seed);
    put_sync(here, there(address, bytes));
    std::fill(here.begin(), here.end(), std::uint8_t{0});
    get_sync(there(address, bytes), here);
    EXPECT_TRUE(holds(here.data(), bytes, seed));
  }
  const std::uint8_t yes = 1;
  put_sync(std::span(&yes, 1), there(flag, 1));
  busy.get();
  // Requests for help that the target gets now are too late, and must do nothing.
  EXPECT_EQ(sync(target_, fn<&helped>), 0U);
}

TEST_F(helped_copies, run_in_several_threads_at_once) {
  constexpr std::uint64_t bytes = mib + 123;
  std::vector<std::thread> threads;
  std::atomic<int> whole{0};
  for (std::uint64_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
      std::vector<std::uint8_t> here(bytes);
      for (std::uint64_t round = 0; round < 5; ++round) {
        fill(here.data(), bytes, 100 * k + round);
        put_sync(here, there(address, bytes));
        std::fill(here.begin(), here.end(), std::uint8_t{0});
        get_sync(there(address, bytes), here);
        whole += holds(here.data(), bytes, 100 * k + round) ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(whole, 20);
}

TEST_F(helped_copies, fail_where_the_target_has_no_memory) {
  constexpr std::uint64_t bytes = 2 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve_with_a_hole>, bytes);
  const std::uint64_t sound = sync(target_, fn<&reserve>, bytes);
  std::vector<std::uint8_t> here(bytes);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(put_sync(here, there(address, bytes)), error);
    EXPECT_THROW(get_sync(there(address, bytes), here), error);
    fill(here.data(), bytes, 5);
    put_sync(here, there(sound, bytes));
    EXPECT_TRUE(sync(target_, fn<&holds_there>, sound, bytes, std::uint64_t{5}));
  }
}

TEST_F(helped_copies, harm_no_other_node_if_memory_goes_away) {
  if constexpr (under_sanitizer)
    GTEST_SKIP() << "sanitizers report the races and faults of this test";
  copy_to_and_from_vanishing(false);
}

TEST_F(helped_copies, end_when_the_target_does) {
  constexpr std::uint64_t bytes = 4 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  std::vector<std::uint8_t> here(bytes);
  // A post, because the reply of a call might come too late.
  post(target_, fn<&die_soon>);
  EXPECT_THROW(
      {
        for (;;)
          put_sync(here, there(address, bytes));
      },
      node_failed);
}

} // namespace
} // namespace farcall::test::helped_copy_test
