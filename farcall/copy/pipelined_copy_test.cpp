// SPDX-License-Identifier: Apache-2.0

// Copies in and out of shared memory, on systems that refuse cross-memory attach.
#include <farcall/copy/copy_test_support.hpp>
#include <farcall/copy/pipelined_copy.hpp>

#include <tests/sanitizer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include <sys/mman.h>

namespace farcall::test::pipelined_copy_test {
namespace {

/// Reserves `bytes` of memory; a page in the middle has that protection.
std::uint64_t reserve_protected(std::uint64_t bytes, int protection) {
  void* const all =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::mprotect(static_cast<std::byte*>(all) + bytes / 2, 4096, protection);
  return reinterpret_cast<std::uintptr_t>(all);
}

class pipelined_copies : public copy_test {
 protected:
  /// Runs `body` on a thread that may not attach.
  static void run(const std::function<void()>& body) {
    std::thread([&] {
      refuse_attach();
      body();
    }).join();
  }
  void put_and_get(std::uint64_t address, std::uint8_t* here, std::uint64_t bytes,
                   std::uint64_t seed) {
    fill(here, bytes, seed);
    put_sync(std::span(here, bytes), there(address, bytes));
    EXPECT_TRUE(sync(target_, fn<&holds_there>, address, bytes, seed)) << bytes;
    std::fill_n(here, bytes, std::uint8_t{0});
    get_sync(there(address, bytes), std::span(here, bytes));
    EXPECT_TRUE(holds(here, bytes, seed)) << bytes;
  }
};

TEST_F(pipelined_copies, arrive_whole_for_any_length_and_offset) {
  constexpr std::uint64_t slot = detail::copy_ring::slot_bytes;
  constexpr std::uint64_t ring = slot * detail::copy_ring::slots;
  constexpr std::uint64_t least = detail::min_pipelined_copy;
  const std::uint64_t address = sync(target_, fn<&reserve>, 4 * mib);
  run([&] {
    std::vector<std::uint8_t> here(4 * mib);
    std::uint64_t seed = 0;
    const std::uint64_t before = sync(target_, fn<&helped>);
    for (const std::uint64_t bytes :
         {std::uint64_t{1}, std::uint64_t{4095}, least - 1, least, least + 1, 2 * slot - 1,
          8 * (slot / 8) + 4097, ring - 1, ring, ring + 1, ring + slot + 17, 2 * mib + 77}) {
      for (const std::uint64_t odd : {0ULL, 1ULL, 63ULL, 4095ULL}) {
        ++seed;
        put_and_get(address + odd, here.data() + seed * 7 % 4096, bytes, seed);
      }
    }
    // On a busy machine, the target may begin to help too late with every copy so far.
    while (!HasFailure() && sync(target_, fn<&helped>) == before)
      put_and_get(address, here.data(), ring, ++seed);
  });
}

TEST_F(pipelined_copies, do_not_touch_neighbouring_bytes) {
  constexpr std::uint64_t bytes = mib / 4 + 3;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes + 2);
  run([&] {
    std::vector<std::uint8_t> here(bytes + 2, 9);
    put_sync(here, there(address, bytes + 2));
    put_and_get(address + 1, here.data() + 1, bytes, 4);
    EXPECT_EQ(here.front(), 9);
    EXPECT_EQ(here.back(), 9);
    std::array<std::uint8_t, 1> end{};
    for (const std::uint64_t at : {address, address + bytes + 1}) {
      get_sync(there(at, 1), end);
      EXPECT_EQ(end[0], 9);
    }
  });
}

TEST_F(pipelined_copies, past_the_caches_arrive_whole) {
  constexpr std::uint64_t bytes = large_copy_from + 5;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes + 1);
  run([&] {
    std::vector<std::uint8_t> here(bytes + 3);
    put_and_get(address + 1, here.data() + 3, bytes, 1);
  });
}

TEST_F(pipelined_copies, report_missing_memory_and_stay_usable) {
  constexpr std::uint64_t bytes = mib;
  const std::uint64_t sound = sync(target_, fn<&reserve>, bytes);
  const std::uint64_t hole = sync(target_, fn<&reserve_with_a_hole>, bytes);
  const std::uint64_t no_write = sync(target_, fn<&reserve_protected>, bytes, PROT_READ);
  const std::uint64_t no_access = sync(target_, fn<&reserve_protected>, bytes, PROT_NONE);
  const std::span<std::uint8_t> bad(
      reinterpret_cast<std::uint8_t*>(reserve_protected(bytes, PROT_NONE)), bytes);
  const std::span<std::uint8_t> bad_to_write(
      reinterpret_cast<std::uint8_t*>(reserve_protected(bytes, PROT_READ)), bytes);
  const auto check = [&] {
    std::vector<std::uint8_t> here(bytes);
    for (std::uint64_t round = 0; round < 2; ++round) {
      EXPECT_THROW(put_sync(here, there(hole, bytes)), error);
      EXPECT_THROW(get_sync(there(hole, bytes), here), error);
      EXPECT_THROW(put_sync(here, there(no_write, bytes)), error);
      EXPECT_THROW(put_sync(here, there(no_access, bytes)), error);
      EXPECT_THROW(get_sync(there(no_access, bytes), here), error);
      EXPECT_THROW(put_sync(bad, there(sound, bytes)), error);
      EXPECT_THROW(get_sync(there(sound, bytes), bad), error);
      EXPECT_THROW(get_sync(there(sound, bytes), bad_to_write), error);
      put_and_get(sound, here.data(), bytes, round);
    }
    get_sync(there(no_write, bytes), here);
    put_sync(bad_to_write, there(sound, bytes));
  };
  check();
  run(check);
}

TEST_F(pipelined_copies, harm_no_other_node_if_memory_goes_away) {
  if constexpr (under_sanitizer)
    GTEST_SKIP() << "sanitizers report the races and faults of this test";
  run([&] { copy_to_and_from_vanishing(true); });
}

TEST_F(pipelined_copies, wait_for_a_target_that_computes) {
  constexpr std::uint64_t bytes = mib + 5;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  const std::uint64_t flag =
      sync(target_, [] { return std::uint64_t{reinterpret_cast<std::uintptr_t>(&may_end)}; });
  future<void> busy = async(target_, fn<&compute>);
  std::atomic<bool> has_begun{false};
  std::thread copying([&] {
    refuse_attach();
    std::vector<std::uint8_t> here(bytes);
    has_begun = true;
    put_and_get(address, here.data(), bytes, 3);
  });
  while (!has_begun)
    std::this_thread::yield();
  const std::uint8_t yes = 1;
  put_sync(std::span(&yes, 1), there(flag, 1));
  busy.get();
  copying.join();
}

TEST_F(pipelined_copies, run_in_several_threads_at_once) {
  constexpr std::uint64_t bytes = mib / 2 + 123;
  std::vector<std::thread> threads;
  for (std::uint64_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      refuse_attach();
      const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
      std::vector<std::uint8_t> here(bytes);
      for (std::uint64_t round = 0; round < 4; ++round)
        put_and_get(address, here.data(), bytes, 100 * k + round);
    });
  }
  for (std::thread& t : threads)
    t.join();
}

TEST_F(pipelined_copies, do_not_block_other_calls) {
  constexpr std::uint64_t bytes = 2 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  std::atomic<bool> is_over{false};
  std::thread copying([&] {
    refuse_attach();
    std::vector<std::uint8_t> here(bytes);
    for (std::uint64_t seed = 0; !is_over; ++seed)
      put_and_get(address, here.data(), bytes, seed);
  });
  for (int i = 0; i < 200; ++i)
    EXPECT_NO_THROW(sync(target_, fn<&helped>));
  is_over = true;
  copying.join();
}

TEST_F(pipelined_copies, end_when_the_target_does) {
  constexpr std::uint64_t bytes = 4 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  run([&] {
    std::vector<std::uint8_t> here(bytes);
    // A post, because the reply of a call might come too late.
    post(target_, fn<&die_soon>);
    EXPECT_THROW(
        {
          for (;;) {
            put_sync(here, there(address, bytes));
            get_sync(there(address, bytes), here);
          }
        },
        node_failed);
  });
}

TEST_F(pipelined_copies, keep_deadlines) {
  constexpr std::uint64_t bytes = mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  run([&] {
    std::vector<std::uint8_t> here(bytes);
    EXPECT_THROW(put_sync(here, there(address, bytes).within(std::chrono::nanoseconds(1))),
                 timeout);
    put_sync(here, there(address, bytes).within(std::chrono::seconds(60)));
  });
}

} // namespace
} // namespace farcall::test::pipelined_copy_test
