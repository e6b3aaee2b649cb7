// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/trace/batch.hpp>

#include <cstring>

#include <gtest/gtest.h>

namespace farcall::trace::batch_test {
namespace {

constexpr std::uint32_t of_kind(event_kind kind, std::uint32_t lane) {
  return std::uint32_t{static_cast<std::uint8_t>(kind)} << event::kind_shift | lane;
}

batch some_batch() {
  batch b;
  b.node = 3;
  b.process = 4711;
  b.source = tick_source::processor_counter;
  b.ticks_per_second = 2.5e9;
  b.clocks = {{10, 20, 5}};
  b.functions = {{16, 7, "work(int)"}};
  b.events.lanes = {{1, 0, false, 9}};
  b.events.first_range = 2;
  b.events.ranges = {"assemble"};
  b.events.threads = {
      {0, 4712, "solver", 2, {{100, 64, of_kind(event_kind::call_begin, 1), 5, 16, 7}}}};
  return b;
}

TEST(batch, arrives_as_it_was_sent) {
  const batch b = decode_batch(encode(some_batch()));
  EXPECT_EQ(b.node, 3U);
  EXPECT_EQ(b.process, 4711);
  EXPECT_EQ(b.source, tick_source::processor_counter);
  EXPECT_EQ(b.ticks_per_second, 2.5e9);
  ASSERT_EQ(b.clocks.size(), 1U);
  EXPECT_EQ(b.clocks[0].hosts, 20U);
  ASSERT_EQ(b.functions.size(), 1U);
  EXPECT_EQ(b.functions[0].name, "work(int)");
  ASSERT_EQ(b.events.lanes.size(), 1U);
  EXPECT_EQ(b.events.lanes[0].peers_number, 9U);
  EXPECT_EQ(b.events.first_range, 2U);
  EXPECT_EQ(b.events.ranges, std::vector<std::string>{"assemble"});
  ASSERT_EQ(b.events.threads.size(), 1U);
  const thread_events& t = b.events.threads[0];
  EXPECT_EQ(t.name, "solver");
  EXPECT_EQ(t.missed, 2U);
  ASSERT_EQ(t.events.size(), 1U);
  EXPECT_EQ(t.events[0].kind(), event_kind::call_begin);
  EXPECT_EQ(t.events[0].lane(), 1U);
  EXPECT_EQ(t.events[0].position, 64U);
}

TEST(batch, is_refused_when_it_is_cut_short_anywhere) {
  const std::vector<std::byte> whole = encode(some_batch());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW((void)decode_batch(std::span(whole).first(n)), malformed_message) << n;
  }
}

TEST(batch, is_refused_with_bytes_behind_it) {
  std::vector<std::byte> longer = encode(some_batch());
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)decode_batch(longer), malformed_message);
}

TEST(batch, is_refused_with_events_of_no_known_kind) {
  batch b = some_batch();
  b.events.threads[0].events[0].kind_and_lane = 0xff000000U;
  EXPECT_THROW((void)decode_batch(encode(b)), malformed_message);
  b.events.threads[0].events[0].kind_and_lane = 0;
  EXPECT_THROW((void)decode_batch(encode(b)), malformed_message);
}

TEST(batch, takes_no_memory_for_a_count_alone) {
  std::vector<std::byte> bytes = encode(some_batch());
  // Count of clocks: after node, process, source and rate.
  const std::uint32_t many = UINT32_MAX;
  std::memcpy(bytes.data() + 4 + 8 + 1 + 8, &many, sizeof many);
  EXPECT_THROW((void)decode_batch(bytes), malformed_message);
}

} // namespace
} // namespace farcall::trace::batch_test
