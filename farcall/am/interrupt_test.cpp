// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/interrupt.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <thread>

namespace farcall::test::interrupt_test {
namespace {

using namespace am;

constexpr handler_key some_key = 20;

time_point in_good_time() { return clock::now() + std::chrono::seconds(60); }
time_point soon() { return clock::now() + 3 * interrupt_interval; }

bool never(void* /*argument*/) noexcept { return false; }

/// Sets the check of the calling thread as long as this object lives. It interrupts each wait at
/// its second question.
class checking {
 public:
  checking() { thread_interrupt = {&is_interrupted, this}; }
  checking(const checking&) = delete;
  checking& operator=(const checking&) = delete;
  ~checking() { thread_interrupt = {}; }

  int questions = 0;

 private:
  static bool is_interrupted(void* user) {
    return ++static_cast<checking*>(user)->questions % 2 == 0;
  }
};

class interrupts : public ::testing::Test {
 protected:
  interrupts() : lane_(&engine_->lane_to(peer_id)) {}

  /// Waits for an event that does not happen.
  [[nodiscard]] bool wait(time_point deadline) {
    return engine_->waiter().wait_until(&never, nullptr, true, deadline);
  }

  idle_engine engine_{{}};
  requester* lane_;
  checking check_;
};

TEST_F(interrupts, end_waits) {
  const interruptible waits;
  EXPECT_THROW((void)wait(in_good_time()), interrupted);
  EXPECT_EQ(check_.questions, 2);
  EXPECT_THROW((void)wait(in_good_time()), interrupted) << "the next wait may end early, too";
  EXPECT_EQ(check_.questions, 4);
}

TEST_F(interrupts, are_asked_for_after_signals_and_intervals) {
  const interruptible waits;
  interruption wait;
  EXPECT_TRUE(wait.is_possible());
  EXPECT_LE(wait.next_poll(), clock::now() + interrupt_interval);
  wait.ask_if_due();
  EXPECT_EQ(check_.questions, 0) << "not yet due";
  wait.sleep_ended(false);
  EXPECT_EQ(check_.questions, 0);
  wait.sleep_ended(true);
  EXPECT_EQ(check_.questions, 1) << "at once after a signal";
  EXPECT_THROW(wait.sleep_ended(true), interrupted);
}

TEST_F(interrupts, do_not_end_waits_that_do_not_expect_it) {
  {
    const interruptible waits;
  }
  EXPECT_FALSE(wait(soon()));
  EXPECT_EQ(check_.questions, 0);
}

TEST_F(interrupts, do_not_end_waits_of_other_threads) {
  std::thread([&] {
    const interruptible waits;
    EXPECT_FALSE(wait(soon()));
  }).join();
  EXPECT_EQ(check_.questions, 0);
}

TEST_F(interrupts, do_not_end_waits_in_handlers) {
  // Only the pointer matters here; the layer above defines the type.
  this_stack.context = reinterpret_cast<const call_context*>(this);
  {
    const interruptible waits;
    EXPECT_EQ(this_stack.interrupt, nullptr);
  }
  this_stack.context = nullptr;
}

/// Notes if waits in a continuation can be interrupted.
class noting final : public continuation {
 public:
  void run() noexcept override {
    has_run = true;
    is_interruptible = this_stack.interrupt != nullptr;
  }
  bool has_run = false;
  bool is_interruptible = false;
};

TEST_F(interrupts, do_not_end_waits_in_continuations) {
  const interruptible waits;
  noting at_once;
  run_continuation(at_once);
  EXPECT_TRUE(at_once.has_run);
  EXPECT_FALSE(at_once.is_interruptible);
  // Continuations that run during an interruptible wait.
  noting in_wait;
  continuation_list due;
  due.push_back(in_wait);
  queue_continuations(due);
  EXPECT_THROW((void)wait(in_good_time()), interrupted);
  EXPECT_TRUE(in_wait.has_run);
  EXPECT_FALSE(in_wait.is_interruptible);
}

TEST_F(interrupts, leave_a_full_lane_unlocked) {
  lane_->guard().lock();
  while (std::byte* to = lane_->try_reserve_request(100))
    lane_->commit_request(to, 100, some_key, nullptr);
  const interruptible waits;
  EXPECT_THROW((void)engine_->wait_for_space(*lane_, 100, in_good_time()), interrupted);
  std::thread([&] {
    lane_->guard().lock();
    lane_->guard().unlock();
  }).join();
}

} // namespace
} // namespace farcall::test::interrupt_test
