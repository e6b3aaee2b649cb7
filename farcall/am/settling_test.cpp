// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/requester_test_support.hpp>
#include <farcall/am/settling.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace farcall::test::settling_test {
namespace {

using namespace am;

time_point soon() { return clock::now() + std::chrono::milliseconds(20); }
time_point in_good_time() { return clock::now() + std::chrono::seconds(60); }

void ignore(request_context& /*request*/) noexcept {}

/// Moves no bytes: both ends share the memory of the rings.
class idle_driver final : public lane_driver {
 public:
  void progress() noexcept override {}
  void arm() noexcept override {}
};

/// An engine with a lane to a peer, which replies to fences during the lifetime of a `replying`.
class settlings : public ::testing::Test {
 protected:
  settlings() {
    engine_.via.lanes_driver = &driver_;
    lane_ = &engine_->lane_to(peer_id);
    peer_requests_ = engine_.via.opened.at(0)->server().in;
    peer_replies_ = engine_.via.opened.at(0)->server().out;
  }

  void post() {
    lane_->guard().lock();
    std::byte* const to = lane_->try_reserve_request(0);
    ASSERT_NE(to, nullptr);
    lane_->commit_request(to, 0, first_user_key, nullptr);
    lane_->guard().unlock();
  }

  /// Takes the peer's next request. True if it is a fence, to which the peer then replies.
  bool reply_to_fence() {
    const record_view record = peek(peer_requests_);
    if (record.kind != record_kind::request) return false;
    const std::uint32_t slot = slot_of(record);
    release(peer_requests_, record);
    if (slot == no_slot) return false;
    ++fences_; // before the reply, upon which a test may look
    EXPECT_TRUE(send_record(peer_replies_, record_kind::reply, slot));
    notify(lane_->wakes());
    return true;
  }

  class replying {
   public:
    explicit replying(settlings& test)
        : thread_([this, &test] {
            while (!ends_) {
              if (!test.reply_to_fence()) std::this_thread::yield();
            }
          }) {}
    replying(const replying&) = delete;
    replying& operator=(const replying&) = delete;
    ~replying() {
      ends_ = true;
      thread_.join();
    }

   private:
    std::atomic<bool> ends_{false};
    std::thread thread_;
  };

  idle_driver driver_;
  idle_engine engine_{{&ignore}};
  requester* lane_ = nullptr;
  inbox peer_requests_;
  outbox peer_replies_;
  std::atomic<int> fences_{0};
};

TEST_F(settlings, wait_until_the_peer_has_begun_all_calls) {
  post();
  const replying peer(*this);
  engine_->drain(in_good_time());
  EXPECT_EQ(fences_, 1);
}

TEST_F(settlings, drain_calls_to_one_node_alone) {
  post();
  engine_->drain(in_good_time(), peer_id + 1);
  EXPECT_FALSE(reply_to_fence()) << "the post";
  EXPECT_FALSE(reply_to_fence()) << "nothing more";
}

TEST_F(settlings, give_up_at_the_deadline) {
  engine_->drain(soon());
  EXPECT_TRUE(reply_to_fence());
  const replying peer(*this);
  engine_->drain(in_good_time());
  EXPECT_EQ(fences_, 2) << "the late reply ends the first call, not the second";
}

TEST_F(settlings, tell_whether_something_was_sent_since_the_last_time) {
  const replying peer(*this);
  EXPECT_FALSE(engine_->settle(in_good_time()));
  post();
  EXPECT_TRUE(engine_->settle(in_good_time()));
  EXPECT_FALSE(engine_->settle(in_good_time()));
  post();
  EXPECT_TRUE(engine_->settle(in_good_time()));
  EXPECT_EQ(fences_, 2);
}

TEST_F(settlings, pass_over_lanes_that_have_failed) {
  post();
  engine_->fail(peer_id, "it has died");
  EXPECT_FALSE(engine_->settle(in_good_time()));
}

} // namespace
} // namespace farcall::test::settling_test
