// SPDX-License-Identifier: Apache-2.0

// Checks the library's doorbells in every order of the operations of sleepers and senders.

#include <farcall/memory/doorbell.hpp>
#include <tests/model/checked_ring.hpp>
#include <tests/model/mutants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <source_location>

namespace farcall::check {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t bytes = 16;

void send_all(checked_ring& ring, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i)
    (void)ring.send(bytes, i);
}

/// Takes `n` records, and sleeps while there are none.
void receive_all(execution& run, checked_ring& ring, std::uint32_t n, doorbell& wakes) {
  for (std::uint32_t i = 0; i < n;) {
    if (ring.receive(run, bytes, i)) {
      ++i;
      continue;
    }
    armed_doorbell watched{&wakes};
    arm({&watched, 1});
    if (has_record(ring.in, ring.in.tail)) continue;
    sleep_on({&watched, 1}, no_deadline);
  }
}

/// A sender of `n` records, and a receiver that sleeps while there are none.
scenario sleeper(std::uint32_t n) {
  return [=](execution& run) {
    checked_ring ring;
    doorbell wakes;
    notify_on_commit(ring.out, wakes);
    run.thread([&] { receive_all(run, ring, n, wakes); });
    run.thread([&] { send_all(ring, n); });
    (void)run.join();
  };
}

/// Two threads sleep on one doorbell, each for records of its own ring.
scenario two_sleepers(void (*notify)(void*) noexcept = nullptr) {
  return [notify](execution& run) {
    checked_ring first;
    checked_ring second;
    doorbell wakes;
    for (checked_ring* ring : {&first, &second}) {
      notify_on_commit(ring->out, wakes);
      if (notify != nullptr) ring->out.notify = notify;
    }
    run.thread([&] { receive_all(run, first, 1, wakes); });
    run.thread([&] { receive_all(run, second, 1, wakes); });
    run.thread([&] {
      send_all(first, 1);
      send_all(second, 1);
    });
    (void)run.join();
  };
}

/// A sleeper waits for an event outside rings, after which the other thread calls
/// notify_if_armed(doorbell&).
scenario local_event() {
  return [](execution& run) {
    std::atomic<std::uint32_t> event{0};
    doorbell wakes;
    run.thread([&] {
      event.store(1, std::memory_order_release);
      notify_if_armed(wakes);
    });
    run.thread([&] {
      while (event.load(std::memory_order_acquire) == 0) {
        armed_doorbell watched{&wakes};
        arm({&watched, 1});
        if (event.load(std::memory_order_acquire) != 0) continue;
        sleep_on({&watched, 1}, no_deadline);
      }
    });
    (void)run.join();
  };
}

/// A block of doorbells.
struct block {
  doorbell before[2];
  doorbell of_block;
  doorbell both[2];
};
static_assert(offsetof(block, of_block) == block_doorbell_at);

/// One thread sleeps for two rings with a doorbell each, on a kernel without futex_waitv. Unless
/// `alone`, another thread sleeps on the second doorbell, too.
scenario sleeper_on_several(bool alone) {
  return [alone](execution& run) {
    alignas(block_bytes) static std::byte memory[sizeof(block)];
    auto& doorbells = *new (memory) block;
    checked_ring rings[2];
    checked_ring third;
    for (const std::size_t i : {0U, 1U}) {
      doorbells.both[i].mark = block_mark;
      notify_on_commit(rings[i].out, doorbells.both[i]);
    }
    notify_on_commit(third.out, doorbells.both[1]);
    run.thread([&] {
      for (std::uint32_t taken = 0; taken < 2;) {
        const auto has_some = [&] {
          return has_record(rings[0].in, rings[0].in.tail) ||
                 has_record(rings[1].in, rings[1].in.tail);
        };
        for (checked_ring& ring : rings)
          taken += ring.receive(run, bytes, 0) ? 1U : 0U;
        if (taken == 2) break;
        armed_doorbell watched[2]{{&doorbells.both[0]}, {&doorbells.both[1]}};
        arm(watched);
        if (!has_some()) sleep_on(watched, no_deadline);
      }
    });
    if (!alone) run.thread([&] { receive_all(run, third, 1, doorbells.both[1]); });
    run.thread([&] {
      send_all(rings[0], 1);
      if (!alone) send_all(third, 1);
      send_all(rings[1], 1);
    });
    (void)run.join();
  };
}

TEST(doorbell_model, sleepers_without_futex_waitv_are_woken) {
  const outcome o = explore(sleeper_on_several(true), {}, {.preemptions = 4});
  EXPECT_TRUE(o.is_complete) << o.wrong;
  const outcome two = explore(sleeper_on_several(false), {}, {.preemptions = 3});
  EXPECT_TRUE(two.is_complete) << two.wrong;
}

TEST(doorbell_model, every_sleeper_is_woken) {
  for (const std::uint32_t n : {1U, 2U}) {
    const outcome o = explore(sleeper(n));
    EXPECT_TRUE(o.is_complete) << n << ": " << o.wrong;
  }
  const outcome three = explore(sleeper(3), {}, {.preemptions = 5});
  EXPECT_TRUE(three.is_complete) << three.wrong;
  const outcome o = explore(local_event());
  EXPECT_TRUE(o.is_complete) << o.wrong;
}

TEST(doorbell_model, two_sleepers_on_one_doorbell_are_woken) {
  const outcome o = explore(two_sleepers(), {}, {.preemptions = 4});
  EXPECT_TRUE(o.is_complete) << o.wrong;
}

/// A wrong notification, which clears the flag in the word and does not count.
void notify_by_flag_alone(void* context) noexcept {
  doorbell& wakes = *static_cast<doorbell*>(context);
  wakes.word.fetch_and(~armed_flag, std::memory_order_release);
  farcall::check::wake(
      &wakes.word, {std::source_location::current(), operation::wake, std::memory_order_relaxed});
}

TEST(doorbell_model, a_flag_alone_is_not_enough_for_two_sleepers) {
  EXPECT_THAT(explore(two_sleepers(&notify_by_flag_alone)).wrong, HasSubstr("no thread can go on"));
}

// The expected survivors, with the reason why each mutant is harmless. Another survivor would be an
// operation that is not needed, or that no scenario tests.
TEST(doorbell_model, only_harmless_mutants_survive) {
  // Run once so that static objects exist: their initialisation is no part of the protocol.
  ASSERT_TRUE(explore(sleeper(1)).is_complete);
  EXPECT_THAT(
      survivors({sleeper(1), sleeper(2), two_sleepers(), local_event(), sleeper_on_several(true)},
                {.preemptions = 3}),
      ElementsAre(
          // The barrier is a fence, too. If the kernel has no barrier, sleepers poll.
          "arm: fence seq_cst, weakened",
          // Clears a line for records that are not sent here: ring_model tests it.
          "commit: store relaxed 2, delayed", "commit: store relaxed 2, omitted",
          // The sleepers here have no doorbells outside the block.
          "notify: load relaxed 2, omitted",
          // A guess, which the update checks.
          "wake_all_on: load relaxed, omitted",
          // The sleeper reads the ring or event that it waits for, not the word.
          "wake_all_on: update release, weakened"));
}

} // namespace
} // namespace farcall::check
