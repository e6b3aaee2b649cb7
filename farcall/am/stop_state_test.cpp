// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/stop_state.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::stop_state_test {
namespace {

using namespace am;

class calling final : public stop_listener {
 public:
  explicit calling(std::function<void()> f) : f_(std::move(f)) {}
  void stop() noexcept override { f_(); }

 private:
  std::function<void()> f_;
};

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class stop_states : public ::testing::Test {
 protected:
  // End the call: the table and its calls hold each other until then.
  ~stop_states() override { state_->end(); }

  counted_ptr<stoppable_calls> calls_{new stoppable_calls};
  counted_ptr<stop_state> state_{calls_->begin(1, 1)};
};

TEST_F(stop_states, tell_in_order_and_once) {
  std::vector<int> told;
  calling first([&] { told.push_back(1); });
  calling second([&] { told.push_back(2); });
  calling third([&] { told.push_back(3); });
  EXPECT_TRUE(state_->add(first));
  EXPECT_TRUE(state_->add(second));
  EXPECT_TRUE(state_->add(third));
  EXPECT_FALSE(state_->stop_requested());
  state_->request_stop();
  EXPECT_TRUE(state_->stop_requested());
  state_->request_stop();
  EXPECT_THAT(told, ::testing::ElementsAre(1, 2, 3));
  state_->remove(second);
}

TEST_F(stop_states, tell_nobody_who_has_been_removed) {
  std::vector<int> told;
  calling first([&] { told.push_back(1); });
  calling second([&] { told.push_back(2); });
  calling third([&] { told.push_back(3); });
  calling fourth([&] { told.push_back(4); });
  for (calling* each : {&first, &second, &third, &fourth})
    EXPECT_TRUE(state_->add(*each));
  state_->remove(first);
  state_->remove(third);
  state_->remove(fourth);
  state_->remove(fourth);
  state_->request_stop();
  EXPECT_THAT(told, ::testing::ElementsAre(2));
}

/// Condition of a waiting fiber, which the test ends.
class gate final : public wait_condition {
 public:
  gate() noexcept : wait_condition(no_deadline) {}
  state poll() noexcept override { return is_open ? state::over : state::pending; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override { return is_open; }
  bool is_open = false;
};

TEST_F(stop_states, wait_for_listeners_that_another_fiber_tells) {
  fiber_scheduler fibers;
  gate g;
  bool has_returned = false;
  bool is_removed = false;
  calling slow([&] {
    fiber_scheduler::mine()->wait(g);
    has_returned = true;
  });
  ASSERT_TRUE(state_->add(slow));
  const auto run = [&](std::function<void()> f) {
    return fibers.run(
        [](void* what) noexcept {
          // Moved to the fiber's stack: the stack that starts the fiber may be gone when it
          // continues.
          const auto own = std::move(*static_cast<std::function<void()>*>(what));
          own();
        },
        &f);
  };
  ASSERT_TRUE(run([&] { state_->request_stop(); }));
  ASSERT_TRUE(run([&] {
    state_->remove(slow);
    EXPECT_TRUE(has_returned);
    is_removed = true;
  }));
  EXPECT_FALSE(is_removed);
  g.is_open = true;
  for (int i = 0; i < 100 && !is_removed; ++i)
    (void)fibers.resume_ready();
  EXPECT_TRUE(is_removed);
  EXPECT_FALSE(fibers.has_suspended());
}

TEST_F(stop_states, take_nobody_after_the_stop) {
  state_->request_stop();
  calling late([] { ADD_FAILURE() << "told"; });
  EXPECT_FALSE(state_->add(late));
  state_->remove(late);
}

TEST_F(stop_states, let_listeners_remove_themselves_and_each_other) {
  std::vector<int> told;
  calling second([&] { told.push_back(2); });
  std::unique_ptr<calling> first;
  first = std::make_unique<calling>([&] {
    told.push_back(1);
    state_->remove(second);
    state_->remove(*first);
    EXPECT_TRUE(state_->stop_requested());
  });
  EXPECT_TRUE(state_->add(*first));
  EXPECT_TRUE(state_->add(second));
  state_->request_stop();
  EXPECT_THAT(told, ::testing::ElementsAre(1));
}

TEST_F(stop_states, let_a_listener_end_in_its_own_call) {
  class ending final : public stop_listener {
   public:
    ending(stop_state& state, bool& told) : state_(state), told_(told) {}
    void stop() noexcept override {
      told_ = true;
      state_.remove(*this);
      delete this;
    }

   private:
    stop_state& state_;
    bool& told_;
  };
  bool was_told = false;
  EXPECT_TRUE(state_->add(*new ending(*state_, was_told)));
  state_->request_stop();
  EXPECT_TRUE(was_told);
}

TEST_F(stop_states, wait_for_a_listener_that_another_thread_runs) {
  std::atomic<bool> has_begun{false};
  std::atomic<bool> may_end{false};
  std::atomic<bool> has_ended{false};
  calling slow([&] {
    has_begun = true;
    EXPECT_TRUE(eventually([&] { return may_end.load(); }));
    has_ended = true;
  });
  EXPECT_TRUE(state_->add(slow));
  std::thread stopping([&] { state_->request_stop(); });
  EXPECT_TRUE(eventually([&] { return has_begun.load(); }));
  std::thread opening([&] {
    std::this_thread::yield();
    may_end = true;
  });
  state_->remove(slow);
  EXPECT_TRUE(has_ended) << "or it would use what is gone";
  opening.join();
  stopping.join();
}

TEST_F(stop_states, race_with_listeners_that_come_and_go) {
  for (int round = 0; round < 2000; ++round) {
    const counted_ptr<stop_state> state = calls_->begin(1, 2);
    std::atomic<int> told{0};
    int refused = 0;
    std::atomic<bool> goes{false};
    std::thread stopping([&] {
      while (!goes)
        spin_pause();
      state->request_stop();
    });
    goes = true;
    int kept = 0;
    {
      calling staying([&] { ++told; });
      if (state->add(staying)) {
        ++kept;
      } else {
        ++refused;
      }
      for (int i = 0; i < 4; ++i) {
        calling passing([] {});
        if (state->add(passing)) state->remove(passing);
      }
      stopping.join();
      state->remove(staying);
    }
    ASSERT_EQ(told, kept);
    ASSERT_EQ(kept + refused, 1);
    state->end();
  }
}

} // namespace
} // namespace farcall::test::stop_state_test
