// SPDX-License-Identifier: Apache-2.0
#include "spin_barrier.hpp"

#include <tools/common/pinning.hpp>

#include <atomic>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(spin_barrier, blocks_until_all_have_arrived) {
  constexpr std::size_t threads = 3;
  constexpr std::size_t rounds = 200;
  spin_barrier barrier{threads};
  std::atomic<std::size_t> arrived{0};
  std::atomic<bool> is_early{false};
  run_together(threads, allowed_cpus(), barrier, [&](std::size_t) {
    for (std::size_t round = 1; round <= rounds; ++round) {
      ++arrived;
      barrier.arrive_and_wait();
      if (arrived < round * threads) is_early = true;
      barrier.arrive_and_wait();
    }
  });
  EXPECT_FALSE(is_early);
  EXPECT_EQ(arrived, threads * rounds);
}

TEST(spin_barrier, does_not_wait_for_threads_that_threw) {
  spin_barrier barrier{2};
  std::atomic<int> ended{0};
  EXPECT_THROW(run_together(2, allowed_cpus(), barrier,
                            [&](std::size_t t) {
                              if (t == 1) throw std::runtime_error("wrong");
                              barrier.arrive_and_wait();
                              ++ended;
                            }),
               std::runtime_error);
  EXPECT_EQ(ended, 1);
}

TEST(run_together, one_alone_is_the_calling_thread) {
  spin_barrier barrier{1};
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id there;
  run_together(1, {}, barrier, [&](std::size_t) {
    barrier.arrive_and_wait();
    there = std::this_thread::get_id();
  });
  EXPECT_EQ(there, here);
}

} // namespace
} // namespace farcall::tool
