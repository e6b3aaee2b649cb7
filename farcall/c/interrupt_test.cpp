// SPDX-License-Identifier: Apache-2.0

// Waits that a function of the program ends early. A stopped target stands for any target that does
// not reply.
#include <farcall/c/c_test_support.hpp>
#include <farcall/c/queue.h>
#include <farcall/farcall.h>

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <pthread.h>

namespace farcall::test::interrupt_test {
namespace {

/// Interrupts the waits of the calling thread at the second question, as long as this object lives.
class interrupting {
 public:
  interrupting() { fc_set_interrupt(&is_interrupted, this); }
  interrupting(const interrupting&) = delete;
  interrupting& operator=(const interrupting&) = delete;
  ~interrupting() { fc_set_interrupt(nullptr, nullptr); }

  [[nodiscard]] int questions() const { return questions_; }

 private:
  static bool is_interrupted(void* user) {
    return ++static_cast<interrupting*>(user)->questions_ % 2 == 0;
  }

  mutable int questions_ = 0; ///< the check is called during the life of constant objects
};

class interrupts_in_c : public c_test {
 protected:
  [[nodiscard]] static fc_future* call(fc_node where) {
    fc_future* f = nullptr;
    EXPECT_EQ(fc_call_async(where, fc_named("echo"), "abc", 3, &f), FC_OK) << fc_error_text();
    return f;
  }
};

TEST_F(interrupts_in_c, leave_futures_unchanged) {
  fc_future* one = call(there_);
  EXPECT_EQ(text_in(one), "abc");
  fc_future_drop(one);
  fc_future* futures[2] = {nullptr, nullptr};
  {
    const stopped_target stopped(target_);
    const interrupting set;
    futures[0] = call(there_);
    futures[1] = call(there_);
    std::size_t index = 9;
    EXPECT_EQ(fc_future_wait(futures[0], -1), FC_INTERRUPTED);
    EXPECT_EQ(fc_future_wait(futures[0], in_time), FC_INTERRUPTED);
    EXPECT_EQ(fc_future_get(futures[0], nullptr, nullptr), FC_INTERRUPTED);
    EXPECT_EQ(fc_wait_all(futures, 2, in_time), FC_INTERRUPTED);
    EXPECT_EQ(fc_wait_any(futures, 2, in_time, &index), FC_INTERRUPTED);
    EXPECT_EQ(fc_wait_any(futures, 2, in_time, &index), FC_INTERRUPTED);
    EXPECT_EQ(index, 9U);
    EXPECT_EQ(set.questions(), 12) << "each wait was interrupted at its second question";
  }
  for (fc_future* f : futures) {
    EXPECT_EQ(text_in(f), "abc");
    fc_future_drop(f);
  }
}

TEST_F(interrupts_in_c, drop_calls_that_wait) {
  char got[3] = {};
  fc_future* result = nullptr;
  {
    const stopped_target stopped(target_);
    const interrupting set;
    EXPECT_EQ(fc_call(there_, fc_named("echo"), "abc", 3, got, 3, nullptr), FC_INTERRUPTED);
    EXPECT_EQ(fc_callv(there_, fc_named("echo"), nullptr, 0, &result), FC_INTERRUPTED);
    EXPECT_EQ(result, nullptr);
  }
  EXPECT_EQ(fc_call(there_, fc_named("echo"), "abc", 3, got, 3, nullptr), FC_OK);
}

TEST_F(interrupts_in_c, stop_calls_that_can_be_stopped) {
  const fc_node places[] = {fc_stoppable(there_), fc_within(there_, in_time)};
  for (const fc_node& place : places) {
    words_.set(0, 0);
    const fc_span word = words_.span(0);
    const auto has_begun = [](void* words) { return static_cast<c_words*>(words)->get(0) == 1; };
    fc_set_interrupt(has_begun, &words_);
    EXPECT_EQ(fc_call(place, fc_named("run on"), &word, sizeof word, nullptr, 0, nullptr),
              FC_INTERRUPTED);
    fc_set_interrupt(nullptr, nullptr);
    EXPECT_TRUE(words_.becomes(0, 2));
  }
}

TEST_F(interrupts_in_c, end_waits_for_space) {
  {
    const stopped_target stopped(target_);
    const interrupting set;
    fc_status status = FC_OK;
    while (status == FC_OK)
      status = fc_post(there_, fc_named("echo"), nullptr, 0);
    EXPECT_EQ(status, FC_INTERRUPTED);
  }
  EXPECT_EQ(fc_call(there_, fc_named("echo"), nullptr, 0, nullptr, 0, nullptr), FC_OK);
}

TEST_F(interrupts_in_c, end_waits_for_queues) {
  fc_queue* queue = nullptr;
  ASSERT_EQ(fc_queue_open(nullptr, &queue), FC_OK);
  fc_completion taken{};
  std::size_t count = 0;
  const interrupting set;
  EXPECT_EQ(fc_queue_take(queue, &taken, 1, in_time, &count), FC_INTERRUPTED);
  ASSERT_EQ(fc_queue_signal(queue, 7), FC_OK);
  EXPECT_EQ(fc_queue_take(queue, &taken, 1, in_time, &count), FC_OK);
  EXPECT_EQ(taken.tag, 7U);
  fc_queue_close(queue);
}

TEST_F(interrupts_in_c, belong_to_the_thread) {
  const stopped_target stopped(target_);
  fc_future* f = call(there_);
  const interrupting set;
  std::thread([&] { EXPECT_EQ(fc_future_wait(f, 3 * soon), FC_TIMEOUT); }).join();
  EXPECT_EQ(set.questions(), 0);
  fc_set_interrupt(nullptr, nullptr);
  EXPECT_EQ(fc_future_wait(f, 3 * soon), FC_TIMEOUT);
  EXPECT_EQ(set.questions(), 0);
  fc_future_drop(f);
}

std::atomic<bool> is_signalled{false};

TEST_F(interrupts_in_c, follow_signals) {
  struct sigaction noting{};
  struct sigaction before{};
  noting.sa_handler = [](int) { is_signalled = true; };
  ASSERT_EQ(::sigaction(SIGUSR1, &noting, &before), 0);
  is_signalled = false;
  const stopped_target stopped(target_);
  fc_future* f = call(there_);
  const auto was_signalled = [](void*) { return is_signalled.load(); };
  fc_set_interrupt(was_signalled, nullptr);
  std::thread sender([self = ::pthread_self()] { ::pthread_kill(self, SIGUSR1); });
  EXPECT_EQ(fc_future_wait(f, in_time), FC_INTERRUPTED);
  sender.join();
  fc_set_interrupt(nullptr, nullptr);
  fc_future_drop(f);
  EXPECT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

} // namespace
} // namespace farcall::test::interrupt_test
