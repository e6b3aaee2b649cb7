// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gtest/gtest.h>

#include <exception>
#include <thread>
#include <vector>

namespace farcall::test::completion_test {
namespace {

using namespace am;

/// Counts its runs. Allocated on the stack, so run() does not destroy it.
class counting final : public continuation {
 public:
  void run() noexcept override { ++runs; }
  int runs = 0;
};

class watched_event final : public local_completion {
 public:
  explicit watched_event(int& ended) : local_completion(nullptr), ended_(&ended) {}

 private:
  ~watched_event() override { ++*ended_; }
  int* ended_;
};

class events : public ::testing::Test {
 protected:
  int ended_ = 0;
  watched_event* event_ = new watched_event(ended_);
};

TEST_F(events, become_ready_once_completed) {
  EXPECT_FALSE(event_->ready());
  EXPECT_EQ(event_->source(), nullptr);
  event_->complete(nullptr);
  EXPECT_TRUE(event_->ready());
  EXPECT_EQ(event_->failure(), nullptr);
  event_->release();
}

TEST_F(events, keep_what_went_wrong) {
  event_->complete(std::make_exception_ptr(error("local failure")));
  ASSERT_TRUE(event_->failure());
  EXPECT_THROW(std::rethrow_exception(event_->failure()), error);
  event_->release();
}

TEST_F(events, live_until_both_sides_have_released_them) {
  event_->complete(nullptr);
  EXPECT_EQ(ended_, 0) << "the holder still reads it";
  event_->release();
  EXPECT_EQ(ended_, 1);
}

TEST_F(events, may_be_released_before_they_are_completed) {
  event_->release();
  EXPECT_EQ(ended_, 0) << "somebody will complete it";
  event_->complete(nullptr);
  EXPECT_EQ(ended_, 1);
}

TEST_F(events, live_while_another_reference_is_retained) {
  event_->retain();
  event_->complete(nullptr);
  event_->release();
  EXPECT_EQ(ended_, 0);
  event_->release();
  EXPECT_EQ(ended_, 1);
}

TEST(events_and_threads, may_end_while_a_continuation_is_being_attached) {
  class releases final : public continuation {
   public:
    explicit releases(local_completion& of) : of_(&of) {}
    void run() noexcept override {
      of_->release();
      delete this;
    }

   private:
    local_completion* of_;
  };
  int ended = 0;
  for (int round = 1; round <= 300; ++round) {
    auto* const event = new watched_event(ended);
    std::thread completing([&] { event->complete(nullptr); });
    event->attach(new releases(*event));
    completing.join();
    ASSERT_EQ(ended, round);
  }
}

TEST_F(events, run_their_continuation_once_ready) {
  counting then;
  event_->attach(&then);
  EXPECT_EQ(then.runs, 0);
  event_->complete(nullptr);
  EXPECT_EQ(then.runs, 1);
  event_->release();
}

TEST_F(events, run_a_late_continuation_at_once) {
  counting then;
  event_->complete(nullptr);
  event_->attach(&then);
  EXPECT_EQ(then.runs, 1);
  EXPECT_FALSE(event_->detach(&then)) << "it has run";
  event_->release();
}

TEST_F(events, give_a_continuation_back) {
  counting then;
  counting other;
  event_->attach(&then);
  EXPECT_FALSE(event_->detach(&other)) << "another one";
  EXPECT_TRUE(event_->detach(&then));
  EXPECT_FALSE(event_->detach(&then));
  event_->complete(nullptr);
  EXPECT_EQ(then.runs, 0);
  event_->release();
}

TEST_F(events, let_nobody_help_by_themselves) {
  EXPECT_FALSE(event_->help(no_deadline));
  event_->complete(nullptr);
  event_->release();
}

TEST_F(events, learn_their_engine_later) {
  const idle_engine e;
  EXPECT_EQ(event_->owner(), nullptr);
  event_->bind(*e);
  EXPECT_EQ(event_->owner(), &*e);
  event_->complete(nullptr);
  event_->release();
}

TEST(event_races, a_continuation_runs_or_is_given_back) {
  for (int round = 0; round < 2000; ++round) {
    int ended = 0;
    auto* const event = new watched_event(ended);
    counting then;
    event->attach(&then);
    std::thread completing([&] { event->complete(nullptr); });
    const bool given_back = event->detach(&then);
    completing.join();
    ASSERT_EQ(then.runs, given_back ? 0 : 1);
    event->release();
    ASSERT_EQ(ended, 1);
  }
}

TEST(event_races, the_result_is_visible_once_ready) {
  for (int round = 0; round < 2000; ++round) {
    int ended = 0;
    auto* const event = new watched_event(ended);
    int result = 0;
    std::thread completing([&] {
      result = round + 1;
      event->complete(nullptr);
    });
    while (!event->ready())
      std::this_thread::yield();
    ASSERT_EQ(result, round + 1);
    completing.join();
    event->release();
  }
}

} // namespace
} // namespace farcall::test::completion_test
