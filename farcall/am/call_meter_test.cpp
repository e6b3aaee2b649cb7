// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/call_meter.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/trace/recorder.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace farcall::test::call_meter_test {
namespace {

using namespace am;

constexpr handler_key some_key = first_user_key + 4;
constexpr std::uint32_t record_bytes = 64;

void read_nothing(pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}

/// A meter that is not the lane's own; the test calls it in the lane's place and sends nothing.
class call_meters : public ::testing::Test {
 protected:
  call_meters() { ends_.out.limit = end_of_space; }
  ~call_meters() override {
    recorder_.stop();
    recorder_.clear();
  }

  void begin_interval(call_meter& m) {
    ends_.out.limit = end_of_space;
    m.begin_interval(ends_, record_bytes);
  }
  static std::uint64_t measured_by(const call_meter& m) {
    const auto& buckets = m.counts().latency.buckets;
    return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  }
  std::vector<trace::event> recorded() {
    trace::recorded taken = recorder_.take(SIZE_MAX);
    return taken.threads.empty() ? std::vector<trace::event>() : taken.threads[0].events;
  }

  static constexpr std::uint64_t end_of_space = 32U << 10;

  idle_engine engine_;
  ring_pair rings_{64U << 10};
  endpoint ends_ = rings_.opener();
  requester lane_{*engine_, rings_.opener(), engine_.doorbell_of(0)};
  pending_call& slot_ = lane_.take_call(&read_nothing);
  pending_call& other_ = lane_.take_call(&read_nothing);
  counter_segment counters_;
  trace::recorder& recorder_ = trace::recorder::make();
  call_meter plain_{counters_, nullptr, peer_id};
  call_meter traced_{counters_, &recorder_, peer_id};
};

// ---- counting -----------------------------------------------------------------------------------

TEST_F(call_meters, give_their_counters_back) {
  const caller_counters* before = nullptr;
  {
    const call_meter ended(counters_, nullptr, peer_id);
    before = &ended.counts();
  }
  EXPECT_EQ(&counters_.take_caller(peer_id), before);
}

TEST_F(call_meters, count_batches_of_replies) {
  caller_counters& counts = plain_.counts();
  counts.calls = 9;
  ends_.in.tail = 640;
  ends_.out.head = 1280;
  plain_.count_batch(6, ends_);
  plain_.count_batch(3, ends_);
  EXPECT_EQ(counts.replies, 9U);
  EXPECT_EQ(counts.batched, 9U);
  EXPECT_EQ(counts.batches, 2U);
  EXPECT_EQ(counts.most_in_flight, 9U);
  EXPECT_EQ(counts.bytes_in, 640U);
  EXPECT_EQ(counts.bytes_out, 1280U);
}

// ---- measuring ----------------------------------------------------------------------------------

TEST_F(call_meters, measure_the_call_that_begins_an_interval) {
  EXPECT_FALSE(plain_.awaits_request());
  begin_interval(plain_);
  EXPECT_TRUE(plain_.awaits_request());
  EXPECT_LT(ends_.out.limit, end_of_space) << "the next interval";
  EXPECT_GT(ends_.out.limit, ends_.out.head + record_bytes);
  plain_.note_sent(&slot_, some_key, 0);
  EXPECT_FALSE(plain_.awaits_request());
  EXPECT_TRUE(plain_.watches(slot_));
  EXPECT_FALSE(plain_.watches(other_));
  EXPECT_EQ(measured_by(plain_), 0U);
  plain_.note_ended(other_);
  plain_.note_ended(slot_);
  EXPECT_FALSE(plain_.watches(slot_));
  EXPECT_EQ(measured_by(plain_), 1U);
}

TEST_F(call_meters, measure_no_request_without_reply) {
  begin_interval(plain_);
  plain_.note_sent(nullptr, some_key, 0);
  EXPECT_TRUE(plain_.awaits_request());
  plain_.note_sent(&slot_, some_key, 0);
  EXPECT_TRUE(plain_.watches(slot_));
}

TEST_F(call_meters, measure_one_call_at_a_time) {
  begin_interval(plain_);
  plain_.note_sent(&slot_, some_key, 0);
  begin_interval(plain_);
  EXPECT_FALSE(plain_.awaits_request());
  EXPECT_EQ(ends_.out.limit, end_of_space);
  plain_.note_ended(slot_);
  begin_interval(plain_);
  EXPECT_TRUE(plain_.awaits_request());
}

// ---- recording ----------------------------------------------------------------------------------

TEST_F(call_meters, record_each_call) {
  ends_.out.head = 640;
  begin_interval(traced_);
  EXPECT_EQ(ends_.out.limit, 640 + record_bytes) << "the next request is an interval, too";
  traced_.note_sent(&slot_, some_key, 5);
  ends_.out.head += record_bytes;
  begin_interval(traced_);
  traced_.note_sent(&other_, some_key, 6);
  EXPECT_TRUE(traced_.watches(slot_));
  EXPECT_TRUE(traced_.watches(other_));
  traced_.note_ended(slot_);
  EXPECT_FALSE(traced_.watches(slot_));

  const std::vector<trace::event> events = recorded();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind(), trace::event_kind::call_begin);
  EXPECT_EQ(events[0].position, 640U);
  EXPECT_EQ(events[0].slot, slot_.index());
  EXPECT_EQ(events[0].key, some_key);
  EXPECT_EQ(events[0].handle, 5U);
  EXPECT_EQ(events[1].kind(), trace::event_kind::call_begin);
  EXPECT_EQ(events[1].position, 640 + record_bytes);
  EXPECT_EQ(events[1].slot, other_.index());
  EXPECT_EQ(events[2].kind(), trace::event_kind::call_end);
  EXPECT_EQ(events[2].slot, slot_.index());
  EXPECT_NE(events[0].lane(), 0U);
}

TEST_F(call_meters, record_requests_without_reply) {
  begin_interval(traced_);
  traced_.note_sent(nullptr, some_key, 0);
  const std::vector<trace::event> events = recorded();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind(), trace::event_kind::post);
}

TEST_F(call_meters, record_no_request_of_the_layer_itself) {
  begin_interval(traced_);
  traced_.note_sent(nullptr, release_reply_key, 0);
  EXPECT_TRUE(recorded().empty());
  EXPECT_EQ(traced_.number_to_tell(), 0U);
}

TEST_F(call_meters, have_their_lane_named_once) {
  EXPECT_EQ(traced_.number_to_tell(), 0U) << "there are no events";
  begin_interval(traced_);
  traced_.note_sent(&slot_, some_key, 0);
  EXPECT_NE(traced_.number_to_tell(), 0U);
  traced_.note_number_told();
  begin_interval(traced_);
  traced_.note_sent(&other_, some_key, 0);
  EXPECT_EQ(traced_.number_to_tell(), 0U);
}

TEST_F(call_meters, record_nothing_once_the_recorder_has_stopped) {
  begin_interval(traced_);
  traced_.note_sent(&slot_, some_key, 0);
  traced_.note_ended(slot_);
  EXPECT_EQ(recorded().size(), 2U);
  recorder_.stop();
  begin_interval(traced_);
  EXPECT_GT(ends_.out.limit, ends_.out.head + record_bytes);
  traced_.note_sent(&slot_, some_key, 0);
  traced_.note_ended(slot_);
  EXPECT_TRUE(recorded().empty());
}

} // namespace
} // namespace farcall::test::call_meter_test
