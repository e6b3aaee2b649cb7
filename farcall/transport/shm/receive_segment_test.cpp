// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/shm/shm.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall::shm::receive_segment_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t ring_bytes = 4096;

segment formatted(std::uint32_t bytes = ring_bytes) {
  segment memory = segment::create("farcall-receive-test", receive_segment::bytes(bytes));
  (void)receive_segment::format(memory, bytes);
  return memory;
}

segment second_view(const segment& memory) {
  return segment::map(unique_fd(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)), memory.size());
}

// ---- layout -------------------------------------------------------------------------------------

TEST(receive_segment, parts_are_inside_and_disjoint) {
  for (const std::uint32_t bytes : {4096U, 65536U}) {
    const segment memory = formatted(bytes);
    const receive_segment h = receive_segment::view(memory);
    EXPECT_EQ(h.ring_bytes(), bytes);
    const std::byte* end = memory.data() + sizeof(receive_segment_header);
    const auto take = [&](const void* part, std::size_t size) {
      const auto* from = static_cast<const std::byte*>(part);
      EXPECT_GE(from, end);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(from) % line_bytes, 0U);
      end = from + size;
    };
    ASSERT_EQ(h.doorbells().size(), receive_segment_doorbells);
    for (doorbell& b : h.doorbells())
      take(&b, sizeof b);
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i)
      take(&h.lane(i), sizeof(lane_control));
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
      take(h.request_ring(i), bytes);
      take(h.reply_ring(i), bytes);
    }
    EXPECT_EQ(end, memory.data() + memory.size());
  }
}

// Offsets as in docs/wire.md: the peer may be built from another version of the source.
TEST(receive_segment, parts_are_at_the_wire_formats_offsets) {
  const segment memory = formatted();
  const receive_segment h = receive_segment::view(memory);
  const auto offset = [&](const void* part) {
    return static_cast<const std::byte*>(part) - memory.data();
  };
  EXPECT_EQ(offset(&h.header()), 0);
  EXPECT_EQ(offset(&h.header().arrivals), 64);
  EXPECT_EQ(offset(&h.header().claimed), 68);
  EXPECT_EQ(offset(&h.header().any), 128);
  EXPECT_EQ(offset(h.doorbells().data()), 192);
  EXPECT_EQ(offset(&h.lane(0)), 32'960);
  EXPECT_EQ(offset(&h.lane(1)) - offset(&h.lane(0)), 192);
  EXPECT_EQ(offset(&h.lane(0).requests_consumed) - offset(&h.lane(0)), 64);
  EXPECT_EQ(offset(&h.lane(0).replies_consumed) - offset(&h.lane(0)), 128);
  EXPECT_EQ(offset(h.request_ring(0)), 86'016);
  EXPECT_EQ(offset(h.reply_ring(0)), 86'016 + ring_bytes);
}

TEST(receive_segment, all_lanes_are_free_at_first) {
  const segment memory = formatted();
  const receive_segment h = receive_segment::view(memory);
  for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
    EXPECT_EQ(state_of(h.lane(i).word.load()), lane_state::free);
  }
}

TEST(receive_segment, state_and_opener_share_a_word) {
  for (const node_id opener : {0U, 1U, 250U, (1U << 24) - 1}) {
    const std::uint64_t word = lane_word(lane_state::closing, opener);
    EXPECT_EQ(state_of(word), lane_state::closing);
    EXPECT_EQ(opener_of(word), opener);
  }
}

TEST(receive_segment, a_node_may_have_more_lanes) {
  const std::uint32_t lanes = 4000;
  const segment memory =
      segment::create("farcall-receive-test", receive_segment::bytes(ring_bytes, lanes));
  (void)receive_segment::format(memory, ring_bytes, lanes);
  const receive_segment h = receive_segment::view(memory);
  EXPECT_EQ(h.lanes(), lanes);
  EXPECT_EQ(reinterpret_cast<std::byte*>(&h.lane(lanes - 1) + 1) <= h.request_ring(0), true);
  EXPECT_EQ(h.reply_ring(lanes - 1) + ring_bytes, memory.data() + memory.size());
}

TEST(receive_segment, knows_which_lanes_were_never_claimed) {
  const segment memory = formatted();
  const receive_segment h = receive_segment::view(memory);
  EXPECT_EQ(h.lanes_claimed(), 0U);
  h.will_claim(7);
  h.will_claim(3);
  EXPECT_EQ(h.lanes_claimed(), 8U);
  h.header().claimed = 1U << 31;
  EXPECT_EQ(h.lanes_claimed(), receive_segment_lanes) << "a peer may have written it";
}

// ---- invalid receive segments -------------------------------------------------------------------

template <class Change>
void expect_refused(Change change) {
  const segment memory = formatted();
  ASSERT_NO_THROW((void)receive_segment::view(memory));
  change(receive_segment::view(memory).header());
  EXPECT_THROW((void)receive_segment::view(memory), malformed_message);
}

TEST(hostile_receive_segment, another_magic_is_refused) {
  expect_refused([](receive_segment_header& h) { h.magic = 0; });
  expect_refused([](receive_segment_header& h) { h.magic ^= 1; });
}

TEST(hostile_receive_segment, other_numbers_of_parts_are_refused) {
  for (const std::uint32_t lanes : {0U, receive_segment_lanes + 1, 0xFFFFFFFFU}) {
    expect_refused([&](receive_segment_header& h) { h.lanes = lanes; });
  }
  expect_refused([](receive_segment_header& h) { h.doorbells = receive_segment_doorbells - 1; });
}

TEST(hostile_receive_segment, impossible_ring_sizes_are_refused) {
  for (const std::uint32_t bytes :
       {0U, 1U, 64U, 2048U, 4095U, 4097U, 12'288U, 8192U, 65'536U, 1U << 31, 0xFFFFFFFFU}) {
    expect_refused([&](receive_segment_header& h) { h.ring_bytes = bytes; });
  }
}

TEST(hostile_receive_segment, a_segment_that_is_too_short_is_refused) {
  const segment memory = formatted();
  for (const std::size_t bytes : {memory.size() - 1, memory.size() / 2, std::size_t{4096}}) {
    const segment part = segment::map(unique_fd(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)), bytes);
    EXPECT_THROW((void)receive_segment::view(part), malformed_message) << bytes;
  }
}

TEST(hostile_receive_segment, a_segment_of_zeros_is_refused) {
  const segment memory =
      segment::create("farcall-receive-test", receive_segment::bytes(ring_bytes));
  EXPECT_THROW((void)receive_segment::view(memory), malformed_message);
}

// ---- lanes that a faulty peer sets up -----------------------------------------------------------

/// Node 0, with a receive segment to which node 1 could write anything; the test writes for node 1.
struct two_nodes {
  segment receive_segment_of_0 = formatted();
  segment receive_segment_of_1 = formatted();
  receive_segment own = receive_segment::view(receive_segment_of_0);
  std::unique_ptr<transport> t = [this] {
    options o;
    o.self = 0;
    o.machine = "here";
    o.own_receive_segment = own;
    o.nodes = 3;
    auto made = make(std::move(o));
    node_memory of_1{1, second_view(receive_segment_of_1), {}};
    EXPECT_TRUE(made->take_memory(of_1));
    return made;
  }();

  void forge_lane(std::uint32_t index, lane_state state, node_id opener, std::uint32_t doorbell,
                  std::uint32_t worker = 0) {
    own.will_claim(index);
    lane_control& block = own.lane(index);
    block.doorbell = doorbell;
    block.worker = worker;
    block.word = lane_word(state, opener);
  }
};

TEST(hostile_lane, a_sensible_one_is_served) {
  two_nodes n;
  n.forge_lane(7, lane_state::open, 1, 5, 3);
  const std::optional<endpoint> c = n.t->accept();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->peer, 1U);
  EXPECT_EQ(c->worker, 3U);
  EXPECT_EQ(c->in.base, n.own.request_ring(7));
  EXPECT_FALSE(n.t->accept()) << "twice";
}

TEST(hostile_lane, impossible_openers_are_not_served) {
  two_nodes n;
  for (const node_id opener : {0U, 2U, 1000U, (1U << 24) - 1, successor_of(1), no_node}) {
    n.forge_lane(0, lane_state::open, opener, 0);
    EXPECT_FALSE(n.t->accept()) << opener;
  }
}

TEST(hostile_lane, impossible_doorbells_are_not_served) {
  two_nodes n;
  for (const std::uint32_t doorbell :
       {receive_segment_doorbells, receive_segment_doorbells + 1, 0x80000000U, 0xFFFFFFFFU}) {
    n.forge_lane(0, lane_state::open, 1, doorbell);
    EXPECT_FALSE(n.t->accept()) << doorbell;
  }
  n.forge_lane(0, lane_state::open, 1, receive_segment_doorbells - 1);
  EXPECT_TRUE(n.t->accept());
}

TEST(hostile_lane, impossible_states_are_not_served) {
  two_nodes n;
  for (const unsigned state : {0U, 1U, 4U, 77U, 255U}) {
    n.forge_lane(0, static_cast<lane_state>(state), 1, 0);
    EXPECT_FALSE(n.t->accept()) << state;
  }
}

TEST(hostile_lane, an_impossible_number_of_claimed_lanes_is_limited) {
  two_nodes n;
  n.forge_lane(receive_segment_lanes - 1, lane_state::open, 1, 0);
  n.own.header().claimed = 0xFFFFFFFFU;
  EXPECT_TRUE(n.t->accept());
  EXPECT_FALSE(n.t->accept());
}

TEST(hostile_lane, an_unserved_lane_does_not_block_others) {
  two_nodes n;
  n.forge_lane(0, lane_state::open, 77, 0);
  n.forge_lane(1, lane_state::open, 1, receive_segment_doorbells);
  n.forge_lane(2, lane_state::open, 1, 0);
  const std::optional<endpoint> c = n.t->accept();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->in.base, n.own.request_ring(2));
}

TEST(hostile_lane, is_not_served_without_a_valid_peer_segment) {
  two_nodes n;
  const segment zeros = segment::create("farcall-receive-test", receive_segment::bytes(ring_bytes));
  node_memory of_2{2, second_view(zeros), {}};
  EXPECT_TRUE(n.t->take_memory(of_2));
  n.forge_lane(0, lane_state::open, 2, 0);
  n.forge_lane(1, lane_state::open, 1, 0);
  const std::optional<endpoint> c = n.t->accept();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->peer, 1U);
  EXPECT_FALSE(n.t->accept());
  EXPECT_THROW((void)n.t->open(2, {}), malformed_message);
  EXPECT_FALSE(n.t->is_lane_to_come(2));
}

// ---- a node with the place of an ended one ------------------------------------------------------

/// Node 0, node 2, which has failed, and a node that has got the place of node 2.
struct place_given_again : two_nodes {
  static constexpr node_id former = 2;
  static constexpr node_id later = successor_of(former);

  segment receive_segment_of_former = formatted();
  segment receive_segment_of_later = formatted();
  segment window_of_former = segment::create("farcall-test-window", 4096);
  segment window_of_later = segment::create("farcall-test-window", 4096);

  place_given_again() {
    meet(former, receive_segment_of_former, window_of_former);
    std::byte byte{7};
    EXPECT_TRUE(t->rma_engine()->put(former, 0x10000, &byte, 1, no_deadline));
    t->forget(former);
    meet(later, receive_segment_of_later, window_of_later);
  }

  void meet(node_id node, const segment& receives, const segment& window) {
    node_memory of{node, second_view(receives), {}};
    of.windows.push_back(second_view(window));
    EXPECT_TRUE(t->take_memory(of));
    card its;
    its.id = node;
    its.machine = "here";
    its.windows = {{0x10000, window.size()}};
    t->admit(its);
  }
};

TEST(shm_place, a_late_lane_of_the_former_node_is_freed) {
  place_given_again n;
  n.forge_lane(0, lane_state::open, place_given_again::former, 5);
  n.forge_lane(1, lane_state::open, place_given_again::later, 5);
  const std::optional<endpoint> c = n.t->accept();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->peer, place_given_again::later);
  EXPECT_EQ(c->in.base, n.own.request_ring(1));
  EXPECT_FALSE(n.t->accept());
  EXPECT_EQ(state_of(n.own.lane(0).word.load()), lane_state::free);
}

TEST(shm_place, the_former_nodes_end_frees_only_its_lanes) {
  place_given_again n;
  n.forge_lane(0, lane_state::claimed, place_given_again::former, 5);
  n.forge_lane(1, lane_state::claimed, place_given_again::later, 5);
  n.t->forget(place_given_again::former);
  EXPECT_EQ(state_of(n.own.lane(0).word.load()), lane_state::free);
  EXPECT_EQ(state_of(n.own.lane(1).word.load()), lane_state::claimed);
  EXPECT_EQ(opener_of(n.own.lane(1).word.load()), place_given_again::later);
}

TEST(shm_place, a_late_copy_for_the_former_node_is_refused) {
  place_given_again n;
  rma_engine& copies = *n.t->rma_engine();
  std::byte byte{1};
  EXPECT_FALSE(copies.put(place_given_again::former, 0x10000, &byte, 1, no_deadline));
  EXPECT_FALSE(copies.get(place_given_again::former, 0x10000, &byte, 1, no_deadline));
  EXPECT_EQ(copies.map(place_given_again::former, 0x10000, 1).here, nullptr);
  EXPECT_EQ(n.window_of_former.data()[0], std::byte{7});
  EXPECT_EQ(n.window_of_later.data()[0], std::byte{0});
  EXPECT_TRUE(copies.put(place_given_again::later, 0x10000, &byte, 1, no_deadline));
  EXPECT_EQ(n.window_of_later.data()[0], std::byte{1});
}

TEST(shm_place, closing_a_lost_lane_leaves_the_later_nodes_lanes) {
  two_nodes n;
  const segment of_former = formatted();
  const segment of_later = formatted();
  const node_id former = 2;
  const node_id later = successor_of(former);
  node_memory first{former, second_view(of_former), {}};
  const std::byte* const address = first.receive_segment.data();
  EXPECT_TRUE(n.t->take_memory(first));
  const endpoint lost = n.t->open(former, {});
  n.t->forget(former);
  EXPECT_THROW((void)n.t->open(former, {}), node_failed);
  EXPECT_FALSE(n.t->is_lane_to_come(former));
  node_memory second{later, second_view(of_later), {}};
  EXPECT_TRUE(n.t->take_memory(second));
  const endpoint good = n.t->open(later, {});
  // The memory of the later node has the addresses of the former node's, and the two lanes have the
  // same index.
  EXPECT_EQ(good.in.base, lost.in.base);
  EXPECT_GE(good.in.base, address);
  n.t->close(lost);
  const receive_segment there = receive_segment::view(of_later);
  EXPECT_EQ(state_of(there.lane(0).word.load()), lane_state::open);
  n.t->close(good);
  EXPECT_EQ(state_of(there.lane(0).word.load()), lane_state::closing);
}

TEST(shm_place, lanes_to_the_later_node_are_in_its_memory) {
  place_given_again n;
  const receive_segment there = receive_segment::view(n.receive_segment_of_later);
  const endpoint c = n.t->open(place_given_again::later, {});
  EXPECT_EQ(c.peer, place_given_again::later);
  EXPECT_EQ(opener_of(there.lane(0).word.load()), 0U);
  EXPECT_EQ(state_of(there.lane(0).word.load()), lane_state::open);
  n.t->close(c);
  EXPECT_EQ(state_of(there.lane(0).word.load()), lane_state::closing);
}

// ---- reachability -------------------------------------------------------------------------------

TEST(shm_accept, finds_lanes_of_nodes_introduced_later) {
  two_nodes n;
  const segment receive_segment_of_2 = formatted();
  n.forge_lane(0, lane_state::open, 2, 7);
  EXPECT_FALSE(n.t->accept());
  const std::uint32_t before = n.t->arrivals().load();
  node_memory of_2{2, second_view(receive_segment_of_2), {}};
  EXPECT_TRUE(n.t->take_memory(of_2));
  EXPECT_NE(n.t->arrivals().load(), before) << "nobody would look";
  const auto lane = n.t->accept();
  ASSERT_TRUE(lane);
  EXPECT_EQ(lane->peer, 2U);
}

TEST(shm_reachability, says_why_not) {
  const two_nodes n;
  card peer;
  peer.id = 1;
  peer.machine = "here";
  EXPECT_TRUE(n.t->reachability_of(peer).possible);
  peer.machine = "elsewhere";
  EXPECT_FALSE(n.t->reachability_of(peer).possible);
  EXPECT_THAT(n.t->reachability_of(peer).reason, HasSubstr("another machine"));
  peer.machine = "here";
  peer.id = 0;
  EXPECT_FALSE(n.t->reachability_of(peer).possible);
  peer.id = 2;
  EXPECT_FALSE(n.t->reachability_of(peer).possible);
  EXPECT_THAT(n.t->reachability_of(peer).reason, HasSubstr("not shared"));
  peer.id = std::numeric_limits<node_id>::max();
  EXPECT_FALSE(n.t->reachability_of(peer).possible);
}

TEST(shm_reachability, an_unidentified_machine_reaches_no_peer) {
  const segment own = formatted();
  const segment other = formatted();
  options o;
  o.own_receive_segment = receive_segment::view(own);
  o.nodes = 2;
  const auto t = make(std::move(o));
  node_memory of_1{1, second_view(other), {}};
  EXPECT_TRUE(t->take_memory(of_1));
  card peer;
  peer.id = 1;
  EXPECT_FALSE(t->reachability_of(peer).possible) << "two empty texts are not one machine";
}

TEST(shm_rma_engine, does_not_reach_into_an_emulator) {
  std::uint64_t there = 7;
  std::uint64_t here = 0;
  const auto get = [&](const std::string& architecture) {
    // New nodes for each call, because a node is admitted once.
    const two_nodes n;
    card peer;
    peer.id = 1;
    peer.machine = "here";
    peer.architecture = architecture;
    // this process itself, which every system allows
    peer.pid = static_cast<std::uint64_t>(::getpid());
    n.t->admit(peer);
    return n.t->rma_engine()->get(1, reinterpret_cast<std::uintptr_t>(&there),
                                  reinterpret_cast<std::byte*>(&here), sizeof here, no_deadline);
  };
  utsname own{};
  ASSERT_EQ(::uname(&own), 0);
  if (!get(own.machine)) GTEST_SKIP() << "the system allows no cross-memory attach";
  EXPECT_EQ(here, 7U);
  here = 0;
  EXPECT_FALSE(get("another"));
  EXPECT_EQ(here, 0U);
}

TEST(machine_identity, is_the_same_at_every_call) {
  EXPECT_FALSE(machine_identity().empty());
  EXPECT_EQ(machine_identity(), machine_identity());
}

} // namespace
} // namespace farcall::shm::receive_segment_test
