// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/timeline.hpp>
#include <farcall/trace/timeline_test_support.hpp>

#include <gtest/gtest.h>

namespace farcall::trace::timeline_test {
namespace {

batch of_threads(node_id node, std::vector<std::vector<event>> threads) {
  batch b;
  b.node = node;
  std::uint32_t number = 0;
  for (auto& events : threads)
    b.events.threads.push_back({number++, 0, "", 0, std::move(events)});
  return b;
}

std::vector<thread_intervals> intervals(const timeline& t, node_id node = 0) {
  return t.intervals_of(t.processes().at(node));
}

TEST(timeline, pairs_beginnings_with_their_ends) {
  timeline t(100);
  EXPECT_TRUE(t.add(of_threads(
      0, {{make(10, event_kind::range_begin, 0, 0, 0, 1), make(20, event_kind::call_begin, 1, 4),
           make(30, event_kind::call_end, 1, 4), make(40, event_kind::range_end, 0, 0, 0, 1)}})));
  const auto made = intervals(t);
  ASSERT_EQ(made.size(), 1U);
  ASSERT_EQ(made[0].intervals.size(), 2U);
  const interval& range = made[0].intervals[0];
  EXPECT_EQ(range.begin, 10U);
  EXPECT_EQ(range.end, 40U);
  EXPECT_TRUE(range.is_finished);
  EXPECT_FALSE(range.crosses);
  const interval& call = made[0].intervals[1];
  EXPECT_EQ(call.kind, event_kind::call_begin);
  EXPECT_EQ(call.end, 30U);
  EXPECT_FALSE(call.crosses);
}

TEST(timeline, leaves_out_farcalls_own_posts_and_handlers) {
  timeline t(100);
  batch sender = of_threads(
      0, {{make(10, event_kind::post, 1, 0, 64, 16), make(20, event_kind::post, 1, 0, 128, 17),
           make(30, event_kind::post, 2, 0, 64, 16)}});
  sender.events.lanes = {{1, 1, true, 0}};
  t.add(sender);
  batch receiver = of_threads(1, {{make(15, event_kind::handler_begin, 1, 0, 64, 16),
                                   make(16, event_kind::handler_end, 1, 0, 64, 16),
                                   make(25, event_kind::handler_begin, 1, 0, 128, 17),
                                   make(26, event_kind::handler_end, 1, 0, 128, 17)}});
  receiver.functions = {{16, 0, "own(int, bytes (*)(int))"}, {17, 0, "own_too(int)"}};
  receiver.events.lanes = {{1, 0, false, 1}};
  t.add(receiver);
  t.leave_out("own");
  const auto sent = intervals(t, 0);
  ASSERT_EQ(sent[0].intervals.size(), 2U);
  EXPECT_EQ(sent[0].intervals[0].begin, 20U);
  // Posts to an unknown node are kept, because their function is unknown.
  EXPECT_EQ(sent[0].intervals[1].begin, 30U);
  const auto handled = intervals(t, 1);
  ASSERT_EQ(handled[0].intervals.size(), 1U);
  EXPECT_EQ(handled[0].intervals[0].begin, 25U);
}

TEST(timeline, draws_overlapping_calls_side_by_side) {
  timeline t(100);
  t.add(of_threads(0,
                   {{make(10, event_kind::call_begin, 1, 0), make(11, event_kind::call_begin, 1, 1),
                     make(12, event_kind::call_begin, 1, 2), make(20, event_kind::call_end, 1, 0),
                     make(21, event_kind::call_end, 1, 1), make(22, event_kind::call_end, 1, 2)}}));
  const auto made = intervals(t);
  for (const interval& i : made[0].intervals)
    EXPECT_TRUE(i.crosses) << i.begin;
}

TEST(timeline, keeps_a_range_when_the_call_around_it_ends) {
  timeline t(100);
  t.add(of_threads(0, {{make(10, event_kind::call_begin, 1, 0), make(11, event_kind::range_begin),
                        make(20, event_kind::call_end, 1, 0), make(30, event_kind::range_end)}}));
  const auto made = intervals(t);
  EXPECT_TRUE(made[0].intervals[0].crosses);
  EXPECT_FALSE(made[0].intervals[1].crosses);
  EXPECT_EQ(made[0].intervals[1].end, 30U);
}

TEST(timeline, draws_a_wait_inside_its_call) {
  timeline t(100);
  t.add(of_threads(0, {{make(10, event_kind::call_begin, 1, 0), make(12, event_kind::wait_begin),
                        make(20, event_kind::call_end, 1, 0), make(21, event_kind::wait_end)}}));
  const auto made = intervals(t);
  ASSERT_EQ(made[0].intervals.size(), 2U);
  EXPECT_FALSE(made[0].intervals[0].crosses);
  EXPECT_FALSE(made[0].intervals[1].crosses);
  EXPECT_TRUE(made[0].intervals[1].is_finished);
  EXPECT_EQ(made[0].intervals[1].end, 20U);
}

TEST(timeline, keeps_a_wait_around_another_call) {
  timeline t(100);
  // The waiting thread runs a continuation, whose own wait lasts a little longer than its call.
  t.add(of_threads(0, {{make(10, event_kind::wait_begin), make(20, event_kind::call_begin, 1, 0),
                        make(21, event_kind::wait_begin), make(30, event_kind::call_end, 1, 0),
                        make(31, event_kind::wait_end), make(50, event_kind::wait_end)}}));
  const auto made = intervals(t);
  ASSERT_EQ(made[0].intervals.size(), 3U);
  const interval& outer = made[0].intervals[0];
  EXPECT_EQ(outer.end, 50U);
  EXPECT_TRUE(outer.is_finished);
  EXPECT_FALSE(outer.crosses);
  EXPECT_EQ(made[0].intervals[2].end, 30U);
}

TEST(timeline, tells_ranges_apart_that_end_in_any_order) {
  timeline t(100);
  t.add(of_threads(0, {{make(10, event_kind::range_begin, 0, 0, 0, 1),
                        make(20, event_kind::range_begin, 0, 0, 0, 2),
                        make(30, event_kind::range_end, 0, 0, 0, 1),
                        make(40, event_kind::range_end, 0, 0, 0, 2)}}));
  const auto made = intervals(t);
  ASSERT_EQ(made[0].intervals.size(), 2U);
  EXPECT_EQ(made[0].intervals[0].end, 30U);
  EXPECT_TRUE(made[0].intervals[0].crosses);
  EXPECT_EQ(made[0].intervals[1].end, 40U);
  EXPECT_FALSE(made[0].intervals[1].crosses);
}

TEST(timeline, finds_calls_that_end_on_another_thread) {
  timeline t(100);
  t.add(of_threads(
      0, {{make(10, event_kind::call_begin, 1, 0)}, {make(30, event_kind::call_end, 1, 0)}}));
  const auto made = intervals(t);
  const interval& call = made[0].intervals.at(0);
  EXPECT_TRUE(call.is_finished);
  EXPECT_TRUE(call.crosses);
  EXPECT_EQ(call.end, 30U);
  EXPECT_EQ(call.end_thread, 1U);
}

TEST(timeline, tells_handlers_apart_that_end_in_any_order) {
  timeline t(100);
  t.add(of_threads(1, {{make(10, event_kind::handler_begin, 1, 0, 64),
                        make(11, event_kind::handler_begin, 1, 1, 128),
                        make(20, event_kind::handler_end, 1, 0, 64),
                        make(21, event_kind::handler_end, 1, 1, 128)}}));
  const auto made = intervals(t, 1);
  EXPECT_EQ(made[0].intervals[0].end, 20U);
  EXPECT_TRUE(made[0].intervals[0].crosses);
  EXPECT_EQ(made[0].intervals[1].end, 21U);
  EXPECT_FALSE(made[0].intervals[1].crosses);
}

TEST(timeline, intervals_without_end_last_to_the_end) {
  timeline t(100);
  t.add(of_threads(0, {{make(10, event_kind::handler_begin, 1, 0, 64),
                        make(15, event_kind::range_begin), make(50, event_kind::range_end)}}));
  const auto made = intervals(t);
  const interval& handler = made[0].intervals[0];
  EXPECT_FALSE(handler.is_finished);
  EXPECT_EQ(handler.end, 50U);
}

TEST(timeline, survives_missing_begins_and_reused_slots) {
  timeline t(100);
  t.add(of_threads(0,
                   {{make(5, event_kind::call_end, 1, 9), make(6, event_kind::range_end),
                     make(10, event_kind::call_begin, 1, 0), make(20, event_kind::call_begin, 1, 0),
                     make(30, event_kind::call_end, 1, 0), make(40, event_kind::call_end, 1, 0)}}));
  const auto made = intervals(t);
  ASSERT_EQ(made[0].intervals.size(), 2U);
  EXPECT_FALSE(made[0].intervals[0].is_finished);
  EXPECT_EQ(made[0].intervals[0].end, 20U);
  EXPECT_TRUE(made[0].intervals[1].is_finished);
  EXPECT_EQ(made[0].intervals[1].end, 30U);
}

TEST(timeline, gives_both_ends_of_a_request_one_name) {
  timeline t(100);
  batch host = of_threads(0, {{make(10, event_kind::call_begin, 3, 0, 640, 16)}});
  host.events.lanes = {{3, 2, true, 0}};
  batch target = of_threads(2, {{make(12, event_kind::handler_begin, 1, 0, 640, 16)}});
  target.events.lanes = {{1, 0, false, 3}};
  target.functions = {{16, 0, "solve"}};
  t.add(host);
  t.add(target);
  const event& call = host.events.threads[0].events[0];
  const event& handler = target.events.threads[0].events[0];
  EXPECT_EQ(t.request_of(0, call), t.request_of(2, handler));
  EXPECT_EQ(t.request_of(0, call), (request_id{0, 3, 640}));
  EXPECT_EQ(t.function_of(0, call), "solve");
  EXPECT_EQ(t.function_of(2, handler), "solve");
  EXPECT_EQ(t.function_of(5, call), "");
  EXPECT_EQ(t.request_of(0, make(1, event_kind::call_begin, 8)).lane, 0U);
}

TEST(timeline, limits_events_and_counts_the_rest) {
  timeline t(3);
  EXPECT_TRUE(t.add(of_threads(0, {{make(1, event_kind::post), make(2, event_kind::post)}})));
  EXPECT_FALSE(t.add(of_threads(1, {{make(3, event_kind::post), make(4, event_kind::post)}})));
  EXPECT_EQ(t.events(), 3U);
  EXPECT_EQ(t.missed(), 1U);
  batch late = of_threads(0, {{}});
  late.events.threads[0].missed = 5;
  EXPECT_FALSE(t.add(late));
  EXPECT_EQ(t.missed(), 6U);
}

TEST(timeline, limits_the_memory_of_descriptions) {
  timeline all(1);
  bool has_space = true;
  std::uint32_t sent = 0;
  for (; has_space && sent < 10'000; ++sent) {
    batch b;
    b.node = 1;
    b.functions.push_back({sent, 0, std::string(4000, 'f')});
    b.events.first_range = sent;
    b.events.ranges.push_back(std::string(4000, 'r'));
    b.events.threads.push_back({.thread = sent, .process_thread = 1, .name = "t", .events = {}});
    b.clocks.push_back({sent + 1, sent + 1, 1});
    has_space = all.add(std::move(b));
  }
  // Limit: 1 MiB of names.
  EXPECT_LT(sent, 200U);
  EXPECT_GT(sent, 50U);
  EXPECT_LT(all.processes().at(1).functions.size(), 200U);
}

} // namespace
} // namespace farcall::trace::timeline_test
