// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/archive.hpp>
#include <farcall/trace/timeline_test_support.hpp>

#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::trace::archive_test {
namespace {

using testing::ElementsAre;
using type = archive::event_type;

/// Converts with ticks of one nanosecond that begin at 1000.
archive archived(const timeline& t) {
  return archive_of(t, {1000, 1e9}, [](node_id node) { return "node " + std::to_string(node); });
}

std::vector<std::tuple<std::uint64_t, type, std::string>> regions_in(const archive& a,
                                                                     std::size_t location) {
  std::vector<std::tuple<std::uint64_t, type, std::string>> all;
  for (const archive::event& e : a.locations.at(location).events) {
    if (e.type == type::enter || e.type == type::leave)
      all.emplace_back(e.ns, e.type, a.regions.at(e.region).name);
  }
  return all;
}

/// Returns the times of messages, and their other locations.
std::vector<std::pair<std::uint64_t, std::uint32_t>> messages_in(const archive& a,
                                                                 std::size_t location, type which) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> all;
  for (const archive::event& e : a.locations.at(location).events) {
    if (e.type == which) all.emplace_back(e.ns, e.peer);
  }
  return all;
}

TEST(archive, has_calls_and_handlers_with_messages_between_them) {
  const archive a = archived(one_call());
  EXPECT_THAT(a.processes, ElementsAre("node 0", "node 1"));
  ASSERT_EQ(a.locations.size(), 2U);
  EXPECT_EQ(a.locations[0].name, "main thread (77)");
  EXPECT_EQ(a.locations[1].process, 1U);
  const std::string name = "solve<\"x\\\">";
  EXPECT_THAT(regions_in(a, 0),
              ElementsAre(std::tuple(500, type::enter, name), std::tuple(2750, type::leave, name)));
  EXPECT_THAT(regions_in(a, 1), ElementsAre(std::tuple(1000, type::enter, name),
                                            std::tuple(2000, type::leave, name)));
  EXPECT_THAT(messages_in(a, 0, type::send), ElementsAre(std::pair(500, 1)));
  EXPECT_THAT(messages_in(a, 1, type::receive), ElementsAre(std::pair(1000, 0)));
  EXPECT_THAT(messages_in(a, 1, type::send), ElementsAre(std::pair(2000, 0)));
  EXPECT_THAT(messages_in(a, 0, type::receive), ElementsAre(std::pair(2750, 1)));
  EXPECT_EQ(a.length_ns, 2750U);
}

TEST(archive, draws_overlapping_calls_as_points_in_time) {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.lanes = {{1, 1, true, 0}};
  host.events.threads = {
      {0,
       77,
       "main",
       0,
       {make(1100, event_kind::range_begin, 0, 0, 0, 0),
        make(1200, event_kind::call_begin, 1, 0, 64, 16),
        make(1300, event_kind::call_begin, 1, 1, 128, 16),
        make(1400, event_kind::call_end, 1, 0, 0, 0), make(1500, event_kind::call_end, 1, 1, 0, 0),
        make(1600, event_kind::range_end, 0, 0, 0, 0)}}};
  t.add(host);
  const archive a = archived(t);
  EXPECT_THAT(regions_in(a, 0), ElementsAre(std::tuple(100, type::enter, "range"),
                                            std::tuple(200, type::enter, "send function 16"),
                                            std::tuple(200, type::leave, "send function 16"),
                                            std::tuple(300, type::enter, "send function 16"),
                                            std::tuple(300, type::leave, "send function 16"),
                                            std::tuple(600, type::leave, "range")));
}

TEST(archive, corrects_clocks_that_place_effects_before_causes) {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.lanes = {{1, 1, true, 0}};
  host.events.threads = {{0,
                          77,
                          "main",
                          0,
                          {make(1500, event_kind::call_begin, 1, 0, 64, 16),
                           make(2000, event_kind::call_end, 1, 0, 0, 0)}}};
  t.add(host);
  batch target;
  target.node = 1;
  target.clocks = {{2000, 2000, 10}};
  target.events.lanes = {{1, 0, false, 1}};
  // The handler, which waits, seems to begin before the call was sent.
  target.events.threads = {{0,
                            88,
                            "app",
                            0,
                            {make(1200, event_kind::handler_begin, 1, 0, 64, 16),
                             make(1250, event_kind::wait_begin, 0, 0, 0, 0),
                             make(1300, event_kind::wait_end, 0, 0, 0, 0),
                             make(1900, event_kind::handler_end, 1, 0, 64, 16)}}};
  t.add(target);
  const archive a = archived(t);
  EXPECT_THAT(messages_in(a, 1, type::receive), ElementsAre(std::pair(500, 0)));
  EXPECT_THAT(regions_in(a, 1), ElementsAre(std::tuple(500, type::enter, "function 16"),
                                            std::tuple(500, type::enter, "wait"),
                                            std::tuple(500, type::leave, "wait"),
                                            std::tuple(900, type::leave, "function 16")));
  for (const archive::location& l : a.locations) {
    std::uint64_t last = 0;
    int depth = 0;
    for (const archive::event& e : l.events) {
      EXPECT_GE(e.ns, last);
      last = e.ns;
      depth += e.type == type::enter ? 1 : e.type == type::leave ? -1 : 0;
      EXPECT_GE(depth, 0);
    }
    EXPECT_EQ(depth, 0);
  }
}

} // namespace
} // namespace farcall::trace::archive_test
