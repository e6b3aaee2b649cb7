// SPDX-License-Identifier: Apache-2.0

// Checks a thread that sleeps for the reply to its call while another thread takes the replies of
// the same lane. engine and requester need the rest of the library, so this is a model of
// waiter::sleep() with its reply_wait (farcall/am/waiter.cpp) and of requester::pump() and
// has_reply(), with the library's ring, doorbell and lock. Changes there must be repeated here: the
// order of operations has to be the same.

#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>
#include <tests/model/checked_ring.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

namespace farcall::check {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t reply_bytes = 16;

/// Differences between the model and the library, each of which is wrong.
enum class variation : std::uint8_t {
  none,
  ready_before_reply, ///< the sleeper's check after arming reads the completion before the ring
  relaxed_position,   ///< the position of the next reply is stored and loaded relaxed
  position_first,     ///< the position is stored before the completion is ready
  no_second_look,
  looks_before_arming,
};

struct lane {
  explicit lane(variation v) : vary(v) { notify_on_commit(replies.out, wakes); }

  /// Like requester::pump(), for at most one reply.
  void pump(execution& run) {
    guard.lock();
    const bool position_first = vary == variation::position_first;
    if (const record_view record = peek(replies.in)) {
      run.require(plain_read(record.data + offsetof(record_header, slot)) == 0, "another reply");
      if (position_first) go_on(record);
      plain_write(&result, 1);
      ready.store(true, std::memory_order_release);
      if (!position_first) release(replies.in, record);
    }
    if (!position_first) say_position();
    guard.unlock();
  }

  void go_on(const record_view& record) {
    release(replies.in, record);
    say_position();
  }
  void say_position() {
    seen.store(replies.in.tail, vary == variation::relaxed_position ? std::memory_order_relaxed
                                                                    : std::memory_order_release);
  }

  [[nodiscard]] bool is_ready() const { return ready.load(std::memory_order_acquire); }
  [[nodiscard]] bool has_reply() const {
    return has_record(replies.in,
                      seen.load(vary == variation::relaxed_position ? std::memory_order_relaxed
                                                                    : std::memory_order_acquire));
  }

  /// Like waiter::sleep() and reply_wait::poll_again().
  void sleep_until_ready() {
    armed_doorbell watched{&wakes};
    if (vary == variation::looks_before_arming) {
      const bool found = has_reply() || is_ready();
      arm({&watched, 1});
      if (found) return;
    } else {
      arm({&watched, 1});
      if (vary == variation::ready_before_reply) {
        if (is_ready() || has_reply()) return;
      } else if (vary != variation::no_second_look) {
        if (has_reply() || is_ready()) return;
      }
    }
    sleep_on({&watched, 1}, no_deadline);
  }

  /// Like run_wait_loop(), without spinning.
  void wait(execution& run) {
    for (;;) {
      pump(run);
      if (is_ready()) break;
      sleep_until_ready();
    }
    run.require(plain_read(&result) == 1, "ready without a result");
  }

  variation vary;
  checked_ring replies;
  doorbell wakes;
  biased_lock guard;
  std::atomic<std::uint64_t> seen{0}; ///< position of the next reply
  std::atomic<bool> ready{false};
  std::uint32_t result = 0;
};

/// A peer that replies, a thread that waits for the reply, and a thread that polls the lane.
scenario sleeper_and_other(variation v) {
  return [v](execution& run) {
    lane l(v);
    run.as(1, [&] { l.pump(run); }); // makes thread 1 the owner of the lane's lock
    run.thread([&] { l.wait(run); });
    run.thread([&] { l.pump(run); });
    run.thread([&] { (void)l.replies.send(reply_bytes, 0); });
    (void)run.join();
  };
}

TEST(waiting_model, a_reply_taken_by_another_thread_wakes_the_sleeper) {
  const outcome o = explore(sleeper_and_other(variation::none), {}, {.preemptions = 4});
  EXPECT_TRUE(o.is_complete) << o.wrong;
}

TEST(waiting_model, the_ring_must_be_checked_before_the_completion) {
  EXPECT_THAT(
      explore(sleeper_and_other(variation::ready_before_reply), {}, {.preemptions = 3}).wrong,
      HasSubstr("no thread can go on"));
}

TEST(waiting_model, the_position_must_publish_the_completion) {
  EXPECT_THAT(explore(sleeper_and_other(variation::relaxed_position), {}, {.preemptions = 3}).wrong,
              HasSubstr("no thread can go on"));
  EXPECT_THAT(explore(sleeper_and_other(variation::position_first), {}, {.preemptions = 3}).wrong,
              HasSubstr("no thread can go on"));
}

TEST(waiting_model, a_sleeper_must_check_again_after_arming) {
  for (const variation v : {variation::no_second_look, variation::looks_before_arming}) {
    EXPECT_THAT(explore(sleeper_and_other(v), {}, {.preemptions = 3}).wrong,
                HasSubstr("no thread can go on"));
  }
}

} // namespace
} // namespace farcall::check
