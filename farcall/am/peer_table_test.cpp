// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/peer_table.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace farcall::test::peer_table_test {
namespace {

using namespace am;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr node_id self = 0;
constexpr node_id stranger = 3; ///< unknown until its first use
constexpr std::size_t node_count = 8;

class peer_tables : public ::testing::Test {
 protected:
  peer_tables()
      : peers_(self, node_count, [this](node_id node, time_point /*deadline*/) {
          met_.push_back(node);
          if (node == stranger) peers_.set_route(node, via_, 5);
        }) {
    peers_.set_route(peer_id, via_, 2);
  }

  /// Text of the error that reach() throws for `node`.
  template <class Error>
  std::string why_not(node_id node) {
    try {
      (void)peers_.reach(node, no_deadline);
    } catch (const Error& e) {
      return e.what();
    }
    return "reached";
  }

  fake_transport via_;
  std::vector<node_id> met_;
  peer_table peers_;
};

TEST_F(peer_tables, give_the_route_to_a_known_node) {
  const peer_route route = peers_.reach(peer_id, no_deadline);
  EXPECT_EQ(route.via, &via_);
  EXPECT_EQ(route.workers, 2U);
  EXPECT_EQ(&peers_.transport_to(peer_id), &via_);
  EXPECT_EQ(peers_.rma_engine_for(peer_id), &via_.memory);
  EXPECT_THAT(met_, IsEmpty());
}

TEST_F(peer_tables, introduce_a_node_at_its_first_use) {
  EXPECT_EQ(peers_.rma_engine_for(stranger), nullptr);
  EXPECT_EQ(peers_.reach(stranger, no_deadline).workers, 5U);
  (void)peers_.reach(stranger, no_deadline);
  EXPECT_THAT(met_, ElementsAre(stranger));
}

TEST_F(peer_tables, say_why_there_is_no_route) {
  peers_.set_unreachable(2, "it has no common transport");
  EXPECT_THAT(why_not<error>(2), HasSubstr("from the host (node 0): it has no common transport"));
  EXPECT_THAT(why_not<error>(4), HasSubstr("the job has no such node"));
  EXPECT_THAT(why_not<error>(node_count), HasSubstr("the job has no such node"));
  EXPECT_EQ(why_not<error>(no_node), missing_node_text(no_node, node_count));
}

TEST_F(peer_tables, mark_a_node_as_failed_once) {
  const std::atomic<bool>* const flag = peers_.failed_flag(peer_id);
  ASSERT_NE(flag, nullptr);
  EXPECT_FALSE(flag->load());
  EXPECT_EQ(peers_.failure_of(peer_id), nullptr);
  EXPECT_THAT(peers_.fail(peer_id, "it has died"), ElementsAre(peer_id));
  EXPECT_TRUE(flag->load());
  EXPECT_THAT(peers_.fail(peer_id, "another reason"), IsEmpty());
  ASSERT_NE(peers_.failure_of(peer_id), nullptr);
  try {
    std::rethrow_exception(peers_.failure_of(peer_id));
  } catch (const node_failed& e) {
    EXPECT_STREQ(e.what(), "it has died");
    EXPECT_EQ(e.node(), peer_id);
  }
}

TEST_F(peer_tables, do_not_introduce_an_unknown_node_that_has_failed) {
  EXPECT_THAT(peers_.fail(stranger, "it has died"), ElementsAre(stranger));
  EXPECT_EQ(why_not<node_failed>(stranger), "it has died");
  EXPECT_THAT(met_, IsEmpty());
  EXPECT_THAT(peers_.fail(node_count, "no such node"), IsEmpty());
}

TEST_F(peer_tables, do_not_introduce_an_unknown_node_without_waiting) {
  EXPECT_THROW((void)peers_.reach(stranger, without_waiting), timeout);
  EXPECT_THAT(met_, IsEmpty());
  EXPECT_EQ(peers_.reach(peer_id, without_waiting).via, &via_) << "a known node";
}

TEST_F(peer_tables, mark_all_known_nodes_as_failed) {
  peers_.set_unreachable(2, "it has no common transport");
  (void)peers_.fail(2, "it has died");
  EXPECT_THAT(peers_.fail_all("the job has ended"), ElementsAre(peer_id));
  EXPECT_TRUE(peers_.has_failed(peer_id));
  EXPECT_FALSE(peers_.has_failed(stranger));
}

TEST_F(peer_tables, refuse_calls_to_a_node_that_has_not_failed) {
  EXPECT_FALSE(peers_.refuse(stranger, "it was removed")) << "unknown";
  EXPECT_TRUE(peers_.refuse(peer_id, "it was removed"));
  EXPECT_FALSE(peers_.refuse(peer_id, "another reason"));
  EXPECT_TRUE(peers_.is_refused(peer_id));
  EXPECT_FALSE(peers_.is_refused(stranger));
  EXPECT_EQ(why_not<node_failed>(peer_id), "it was removed");
  EXPECT_FALSE(peers_.has_failed(peer_id));
}

TEST_F(peer_tables, read_memory_in_place_or_by_a_copy) {
  alignas(16) const std::uint64_t there = 4711;
  const auto address = reinterpret_cast<std::uint64_t>(&there);
  const auto* const here = reinterpret_cast<const std::byte*>(&there);
  EXPECT_EQ(peers_.read_remote(self, address, sizeof there).data, here);
  EXPECT_EQ(peers_.read_remote(peer_id, address, sizeof there).data, here);
  via_.memory.maps = false;
  const remote_bytes copied = peers_.read_remote(peer_id, address, sizeof there);
  EXPECT_NE(copied.data, here);
  EXPECT_EQ(copied.data, copied.copy.get());
  EXPECT_EQ(std::memcmp(copied.data, here, sizeof there), 0);
}

TEST_F(peer_tables, read_no_memory_that_a_peer_does_not_have) {
  alignas(16) const std::uint64_t there = 4711;
  const auto address = reinterpret_cast<std::uint64_t>(&there);
  EXPECT_THROW((void)peers_.read_remote(peer_id, address + 1, 4), malformed_message);
  EXPECT_THROW((void)peers_.read_remote(4, address, 4), error);
  via_.memory.maps = via_.memory.works = false;
  EXPECT_THROW((void)peers_.read_remote(peer_id, address, 4), malformed_message);
  (void)peers_.fail(peer_id, "it has died");
  EXPECT_THROW((void)peers_.read_remote(peer_id, address, 4), node_failed);
}

// ---- nodes that have a place one after the other ------------------------------------------------

TEST_F(peer_tables, keep_failures_when_later_nodes_get_the_places) {
  const node_id later = successor_of(peer_id);
  peers_.fail(peer_id, "it has died");
  const std::atomic<bool>& former_flag = *peers_.failed_flag(peer_id);
  fake_transport other;
  peers_.set_route(later, other, 3);
  EXPECT_EQ(peers_.reach(later, no_deadline).via, &other);
  EXPECT_FALSE(peers_.has_failed(later));
  EXPECT_EQ(peers_.failure_of(later), nullptr);
  EXPECT_TRUE(peers_.has_failed(peer_id));
  EXPECT_TRUE(former_flag.load());
  EXPECT_THAT([&] { std::rethrow_exception(peers_.failure_of(peer_id)); },
              ::testing::ThrowsMessage<node_failed>(HasSubstr("it has died")));
  EXPECT_THAT(peers_.fail(peer_id, "again"), IsEmpty());
  EXPECT_FALSE(peers_.has_failed(later));
  EXPECT_THAT(peers_.fail(later, "it has died, too"), ElementsAre(later));
}

TEST_F(peer_tables, note_late_failures_of_unknown_former_nodes) {
  const node_id former = 5;
  peers_.set_route(successor_of(former), via_, 1);
  EXPECT_THAT(peers_.fail(former, "it has died"), ElementsAre(former));
  EXPECT_FALSE(peers_.has_failed(successor_of(former)));
  EXPECT_THAT(why_not<node_failed>(former), HasSubstr("it has died"));
}

} // namespace
} // namespace farcall::test::peer_table_test
