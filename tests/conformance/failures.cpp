// SPDX-License-Identifier: Apache-2.0

// Tests of nodes that end with open lanes.

#include <tests/conformance/conformance.hpp>

namespace farcall::conformance {
namespace {

TEST_P(transport_conformance, a_dead_peer_leaves_nothing_behind) {
  make_pair();
  const std::uint32_t lanes = GetParam().max_lanes != 0 ? GetParam().max_lanes : 50;
  constexpr std::uint32_t accepted_ones = 10;
  std::vector<endpoint> accepted;
  const auto open_all = [&](side& s) {
    for (std::uint32_t i = 0; i < lanes; ++i) {
      endpoint c = s.open();
      s.send(c, 64, i);
    }
    s.step();
  };
  // Most of the lanes are still waiting to be accepted when their opener dies.
  node_id peer = no_node;
  run(
      [&](side& s) {
        s.step();
        peer = s.peer();
        if (peer == s.id()) return;
        for (std::uint32_t i = 0; i < accepted_ones; ++i)
          accepted.push_back(s.accept());
      },
      open_all);
  if (peer == node_0().id()) GTEST_SKIP() << "a node does not outlive itself";
  transport& link = node_0().link();
  link.forget(peer);
  for (const endpoint& c : accepted)
    link.close(c);
  link.forget(peer);
  EXPECT_FALSE(link.accept()) << "a lane of the dead";

  if (!GetParam().comes_back) return;
  // All lanes can be opened again.
  replace_node_1();
  run(
      [&](side& s) {
        s.step();
        for (std::uint32_t i = 0; i < lanes; ++i) {
          endpoint c = s.accept();
          record_view record;
          s.wait([&] { return static_cast<bool>(record = peek(c.in)); }, "record");
          EXPECT_EQ(record.bytes, 64U);
          s.link().close(c);
        }
        EXPECT_FALSE(s.link().accept());
      },
      open_all);
}

TEST_P(transport_conformance, records_of_the_dead_can_still_be_read) {
  make_pair();
  endpoint c;
  run([&](side& s) { c = s.accept(); },
      [](side& s) {
        endpoint lane = s.open();
        for (std::uint64_t n = 0; n < 20; ++n)
          s.send(lane, 100, n);
      });
  for (std::uint64_t n = 0; n < 20; ++n) {
    record_view record;
    ASSERT_TRUE(test::eventually([&] {
      node_0().link().progress();
      return static_cast<bool>(record = peek(c.in));
    })) << n;
    ASSERT_EQ(test::wrong_with(record, 100, n), "");
    release(c.in, record);
  }
  EXPECT_LE(peek(c.in).bytes, 0U) << "nothing, or the mark of an end";
  // Replies to the dead node fill the ring, without an error.
  std::uint64_t replies = 0;
  while (test::send(c.out, 100, replies))
    ++replies;
  EXPECT_LT(replies, 1000U);
  node_0().link().close(c);
}

} // namespace
} // namespace farcall::conformance
