// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/chunk_offer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace farcall::detail::test::chunk_offer_test {
namespace {

constexpr auto never = [] { return false; };

std::vector<std::uint64_t> take_all(chunk_offer& offer, const offered_copy& c) {
  std::vector<std::uint64_t> taken;
  while (const auto number = offer.take(c))
    taken.push_back(*number);
  return taken;
}

TEST(chunk_offer, hands_out_each_chunk_once) {
  const offered_copy c{.ours = 1000, .theirs = 2000, .bytes = 25, .chunk_bytes = 10};
  chunk_offer offer;
  EXPECT_FALSE(offer.take(c)) << "nothing is offered yet";
  offer.open(c);
  EXPECT_EQ(take_all(offer, c), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(offer.close(c), 3U);
  EXPECT_EQ(c.chunk_at(2).offset, 20U);
  EXPECT_EQ(c.chunk_at(2).bytes, 5U);
}

TEST(chunk_offer, tells_the_peer_what_to_copy) {
  const offered_copy c{.ours = 7, .theirs = 8, .bytes = 30, .chunk_bytes = 10, .is_put = false};
  chunk_offer offer;
  offer.open(c);
  EXPECT_EQ(offer.take(c), 0U);
  std::vector<std::uint64_t> offsets;
  EXPECT_EQ(offer.help(
                [&](const offered_copy& seen, offered_copy::chunk chunk) {
                  EXPECT_EQ(seen.ours, 7U);
                  EXPECT_EQ(seen.theirs, 8U);
                  EXPECT_EQ(seen.bytes, 30U);
                  EXPECT_FALSE(seen.is_put);
                  offsets.push_back(chunk.offset);
                  return true;
                },
                never),
            2U);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{10, 20}));
  EXPECT_FALSE(offer.take(c));
  EXPECT_EQ(offer.close(c), 3U);
  EXPECT_EQ(offer.ended_by_peer(), 2U);
  EXPECT_FALSE(offer.refused());
}

TEST(chunk_offer, gives_no_chunk_after_the_peer_refused_one) {
  const offered_copy c{.bytes = 50, .chunk_bytes = 10};
  chunk_offer offer;
  offer.open(c);
  const auto refuse = [](const offered_copy&, offered_copy::chunk) { return false; };
  const auto make = [](const offered_copy&, offered_copy::chunk) { return true; };
  EXPECT_TRUE(offer.ask());
  EXPECT_EQ(offer.help(refuse, never), 0U);
  // The maker asks again before it has seen the refusal.
  EXPECT_TRUE(offer.ask());
  EXPECT_EQ(offer.help(refuse, never), 0U);
  EXPECT_EQ(offer.refused(), 0U) << "the only one";
  EXPECT_EQ(offer.ended_by_peer(), 1U);
  EXPECT_EQ(take_all(offer, c), (std::vector<std::uint64_t>{1, 2, 3, 4}));
  (void)offer.close(c);
  offer.open(c);
  EXPECT_EQ(offer.help(make, never), 5U) << "of the next copy";
}

TEST(chunk_offer, has_nothing_for_a_peer_that_comes_late) {
  const offered_copy c{.bytes = 30, .chunk_bytes = 10};
  chunk_offer offer;
  const auto make = [](const offered_copy&, offered_copy::chunk) { return true; };
  EXPECT_EQ(offer.help(make, never), 0U);
  offer.open(c);
  (void)offer.take(c);
  EXPECT_EQ(offer.close(c), 1U);
  EXPECT_EQ(offer.help(make, never), 0U);
  EXPECT_FALSE(offer.take(c));
}

TEST(chunk_offer, is_left_for_other_work) {
  const offered_copy c{.bytes = 100, .chunk_bytes = 10};
  chunk_offer offer;
  offer.open(c);
  EXPECT_TRUE(offer.ask());
  EXPECT_FALSE(offer.ask()) << "it is on its way";
  int made = 0;
  EXPECT_EQ(offer.help(
                [&](const offered_copy&, offered_copy::chunk) {
                  ++made;
                  return true;
                },
                [&] { return made == 3; }),
            3U);
  EXPECT_TRUE(offer.ask()) << "it is to come again";
  offer.ask_later();
  EXPECT_TRUE(offer.ask());
}

TEST(chunk_offer, says_what_the_peer_could_not_copy) {
  const offered_copy c{.bytes = 100, .chunk_bytes = 10};
  chunk_offer offer;
  offer.open(c);
  EXPECT_EQ(
      offer.help([](const offered_copy&, offered_copy::chunk k) { return k.offset < 20; }, never),
      2U);
  EXPECT_EQ(offer.ended_by_peer(), 3U);
  EXPECT_EQ(offer.refused(), 2U);
  EXPECT_EQ(offer.take(c), 3U);
  offer.give_up_peer();
  EXPECT_FALSE(offer.ask());
  offer.open(c);
  EXPECT_FALSE(offer.refused()) << "of the copy before";
}

TEST(chunk_offer, survives_a_maker_that_writes_nonsense) {
  chunk_offer offer;
  offer.open({.bytes = 100, .chunk_bytes = 10});
  // A hostile maker's chunk size of zero, which the peer must not divide by.
  const offered_copy c{.bytes = 2, .chunk_bytes = 0};
  offer.open(c);
  std::uint64_t bytes = 0;
  EXPECT_EQ(offer.help(
                [&](const offered_copy&, offered_copy::chunk chunk) {
                  bytes += chunk.bytes;
                  return true;
                },
                never),
            2U);
  EXPECT_EQ(bytes, 2U);
}

// One thread makes copies, the other takes what it can: every chunk must be copied once, and for
// the right copy.
TEST(chunk_offer, is_shared_by_two_threads) {
  constexpr std::uint64_t copies = 2000;
  constexpr std::uint64_t chunks = 16;
  chunk_offer offer;
  std::vector<std::atomic<unsigned>> made(copies * chunks);
  const auto make = [&](const offered_copy& c, offered_copy::chunk k) {
    made[c.ours * chunks + k.offset / c.chunk_bytes].fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  std::atomic<bool> is_over{false};
  std::thread helper([&] {
    while (!is_over.load())
      (void)offer.help(make, never);
  });
  for (std::uint64_t i = 0; i < copies; ++i) {
    const offered_copy c{.ours = i, .theirs = i, .bytes = chunks * (i + 1), .chunk_bytes = i + 1};
    offer.open(c);
    std::uint64_t own = 0;
    for (; const auto number = offer.take(c); ++own)
      (void)make(c, c.chunk_at(*number));
    const std::uint64_t by_peer = offer.close(c) - own;
    while (offer.ended_by_peer() < by_peer)
      std::this_thread::yield();
  }
  is_over.store(true);
  helper.join();
  for (const auto& m : made)
    ASSERT_EQ(m.load(), 1U);
}

} // namespace
} // namespace farcall::detail::test::chunk_offer_test
