// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/copy_ring.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace farcall::detail::test::copy_ring_test {
namespace {

constexpr auto never = [] { return false; };
constexpr auto at_once = [](std::uint64_t /*turns*/) { return false; };

/// A ring with its slots.
class copy_rings : public testing::Test {
 protected:
  copy_rings() { ring_->open(); }
  ~copy_rings() override { ::operator delete(memory_, page); }

  static constexpr std::align_val_t page{4096};
  void* const memory_ = ::operator new(copy_ring::bytes_with_slots(), page);
  copy_ring* const ring_ = new (memory_) copy_ring;
};

TEST_F(copy_rings, give_the_peer_what_is_posted_in_its_order) {
  ring_->post(0, {.address = 7, .bytes = 8, .copy = 1, .is_put = true, .is_large = false});
  ring_->post(1, {.address = 9, .bytes = 10, .copy = 1, .is_put = false, .is_large = true});
  std::vector<std::uint64_t> addresses;
  const auto copy = [&](std::byte* slot, const copy_ring::order& what) {
    EXPECT_EQ(slot, ring_->slot(addresses.size()));
    EXPECT_EQ(what.bytes, what.address + 1);
    EXPECT_EQ(what.copy, 1U);
    EXPECT_EQ(what.is_put, addresses.empty());
    EXPECT_EQ(what.is_large, !addresses.empty());
    EXPECT_TRUE(ring_->is_attended());
    addresses.push_back(what.address);
    return true;
  };
  EXPECT_EQ(ring_->serve(copy, never, at_once), 2U);
  EXPECT_EQ(addresses, (std::vector<std::uint64_t>{7, 9}));
  EXPECT_EQ(ring_->ended_by_peer(), 2U);
  EXPECT_FALSE(ring_->take_back());
  EXPECT_FALSE(ring_->refused());
  EXPECT_FALSE(ring_->is_attended());
}

TEST_F(copy_rings, give_back_what_the_peer_has_not_taken) {
  for (std::uint64_t n = 0; n < 3; ++n)
    ring_->post(n, {.bytes = 1});
  ASSERT_TRUE(ring_->take());
  EXPECT_EQ(ring_->take_back(), 1U);
  EXPECT_EQ(ring_->take()->number, 2U);
  EXPECT_FALSE(ring_->take_back());
  EXPECT_FALSE(ring_->take());
  EXPECT_EQ(ring_->ended_by_peer(), 0U);
}

TEST_F(copy_rings, peers_leave_a_closed_or_idle_ring) {
  const auto copy = [](std::byte*, const copy_ring::order&) { return true; };
  for (std::uint64_t n = 0; n < 3; ++n)
    ring_->post(n, {.bytes = 1});
  EXPECT_TRUE(ring_->ask());
  EXPECT_FALSE(ring_->ask()) << "it is on its way";
  EXPECT_EQ(ring_->serve(copy, [] { return true; }, at_once), 0U);
  EXPECT_TRUE(ring_->ask()) << "it is to come again";
  std::uint64_t waited = 0;
  EXPECT_EQ(ring_->serve(copy, never, [&](std::uint64_t turns) { return (waited = turns) < 5; }),
            3U);
  EXPECT_EQ(waited, 5U);
  ring_->close();
  EXPECT_EQ(ring_->serve(copy, never, [](std::uint64_t) { return true; }), 0U);
}

TEST_F(copy_rings, say_what_the_peer_could_not_copy) {
  ring_->post(0, {.bytes = 1});
  ring_->post(1, {.bytes = 2});
  ring_->post(2, {.bytes = 3});
  EXPECT_EQ(ring_->serve([](std::byte*, const copy_ring::order& what) { return what.bytes != 2; },
                         never, at_once),
            1U);
  EXPECT_EQ(ring_->ended_by_peer(), 2U);
  EXPECT_EQ(ring_->refused(), 1U);
  // Takes no more slots of this copy, though the maker asks again before it has seen the refusal.
  EXPECT_EQ(ring_->serve([](std::byte*, const copy_ring::order&) { return false; }, never, at_once),
            0U);
  EXPECT_EQ(ring_->refused(), 1U);
  EXPECT_EQ(ring_->take_back(), 2U);
  ring_->open();
  EXPECT_FALSE(ring_->refused()) << "of the next copy";
}

TEST_F(copy_rings, survive_a_maker_that_writes_nonsense) {
  ring_->post(0, {.address = 1, .bytes = UINT64_MAX});
  ASSERT_EQ(ring_->take()->what.bytes, copy_ring::slot_bytes);
}

// One thread posts and takes back slots, the other takes what it can: each slot must be finished
// once, with the content that was posted.
TEST_F(copy_rings, are_shared_by_two_threads) {
  constexpr std::uint64_t count = 20'000;
  std::vector<std::atomic<unsigned>> made(count);
  std::atomic<bool> is_over{false};
  std::atomic<unsigned> wrong{0};
  std::thread helper([&] {
    while (!is_over.load())
      (void)ring_->serve(
          [&](std::byte* slot, const copy_ring::order& what) {
            std::uint64_t seen = 0;
            std::memcpy(&seen, slot, sizeof seen);
            if (seen != what.address || what.bytes != what.address % 100) ++wrong;
            made[what.address].fetch_add(1, std::memory_order_relaxed);
            return true;
          },
          never, at_once);
  });
  std::uint64_t ended = 0; // count of slots that the peer has finished, as seen
  std::uint64_t done = 0;  // all slots below are finished
  std::vector<bool> is_own(count);
  for (std::uint64_t n = 0; n < count || done < count;) {
    for (; done < n; ++done) {
      if (is_own[done]) continue;
      if (ring_->ended_by_peer() == ended) break;
      ++ended;
    }
    if (n < count && n - done < copy_ring::slots) {
      std::memcpy(ring_->slot(n), &n, sizeof n);
      ring_->post(n, {.address = n, .bytes = n % 100});
      ++n;
    } else if (const auto number = ring_->take_back()) {
      is_own[*number] = true;
      made[*number].fetch_add(1, std::memory_order_relaxed);
    } else {
      std::this_thread::yield();
    }
  }
  is_over.store(true);
  helper.join();
  EXPECT_EQ(wrong, 0U);
  for (const auto& m : made)
    ASSERT_EQ(m.load(), 1U);
}

} // namespace
} // namespace farcall::detail::test::copy_ring_test
