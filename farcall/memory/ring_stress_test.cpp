// SPDX-License-Identifier: Apache-2.0

// Two threads and the two rings of a lane, at full speed. Meant for ThreadSanitizer too.

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <tests/ring_support.hpp>
#include <tests/stress.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace farcall::ring_stress_test {
namespace {

using test::private_ring;
using test::scrambled;
using test::wrong_with;

const std::uint64_t records = test::stress_rounds(1'000'000, 200'000);

/// Returns the length of record `n`: mostly short, now and then as long as it may be.
std::uint32_t length_of(std::uint64_t n, std::uint64_t ring_bytes) {
  const std::uint64_t dice = scrambled(n);
  const std::uint64_t longest = dice % 64 == 0 ? record_limit(ring_bytes) : 160;
  return static_cast<std::uint32_t>(8 + dice / 64 % (longest - 7));
}

/// Ends both threads' loops if one of them finds an error, or the test takes far too long.
class watch {
 public:
  void report(const std::string& what) {
    if (!failed_.exchange(true)) what_ = what;
  }
  [[nodiscard]] bool is_over() const { return failed_.load(std::memory_order_relaxed); }
  /// Pauses a thread that has nothing to do.
  void pause(test::spinner& s) {
    s.pause();
    if (clock::now() > deadline_) report("it took longer than anything could explain");
  }
  /// To be called after both threads have ended.
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  const time_point deadline_ = clock::now() + test::wait_limit;
  std::string what_;
  std::atomic<bool> failed_{false};
};

/// Sends requests and takes replies; both come back in order.
void run_opener(outbox& requests, inbox& replies, std::uint64_t ring_bytes, watch& w) {
  std::uint64_t sent = 0;
  std::uint64_t replied = 0;
  test::spinner s;
  while (replied < records && !w.is_over()) {
    bool moved = false;
    // Bursts of changing length, so that the rings run full and empty.
    for (std::uint64_t burst = 1 + scrambled(sent) % 200; burst > 0 && sent < records; --burst) {
      if (!test::send(requests, length_of(sent, ring_bytes), sent)) break;
      ++sent;
      moved = true;
    }
    while (const record_view reply = peek(replies)) {
      const std::string wrong = wrong_with(reply, length_of(replied + 1, ring_bytes),
                                           records + replied, record_kind::reply);
      if (!wrong.empty()) return w.report("reply " + std::to_string(replied) + ": " + wrong);
      release(replies, reply);
      ++replied;
      moved = true;
    }
    if (!moved) w.pause(s);
  }
}

/// Replies to each request by a record of another length.
void run_receiver(inbox& requests, outbox& replies, std::uint64_t ring_bytes, watch& w) {
  test::spinner s;
  for (std::uint64_t n = 0; n < records && !w.is_over();) {
    const record_view request = peek(requests);
    if (!request) {
      w.pause(s);
      continue;
    }
    const std::string wrong = wrong_with(request, length_of(n, ring_bytes), n);
    if (!wrong.empty()) return w.report("request " + std::to_string(n) + ": " + wrong);
    while (!test::send(replies, length_of(n + 1, ring_bytes), records + n, record_kind::reply)) {
      if (w.is_over()) return;
      w.pause(s);
    }
    release(requests, request);
    ++n;
  }
}

class ring_stress : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ring_stress, both_rings_of_a_lane_keep_order_and_content) {
  const std::uint64_t ring_bytes = GetParam();
  // Start positions that overflow during the test.
  private_ring requests(ring_bytes, std::uint64_t{0} - 64 * ring_bytes);
  private_ring replies(ring_bytes, (std::uint64_t{1} << 32) - 64 * ring_bytes);
  watch w;
  std::thread receiver([&] { run_receiver(requests.in, replies.out, ring_bytes, w); });
  run_opener(requests.out, replies.in, ring_bytes, w);
  receiver.join();
  EXPECT_EQ(w.what(), "");
  EXPECT_FALSE(peek(requests.in));
  EXPECT_FALSE(peek(replies.in));
}

INSTANTIATE_TEST_SUITE_P(sizes, ring_stress, ::testing::Values(4096U, 65536U),
                         ::testing::PrintToStringParamName());

// A receiver that sleeps while there is nothing to do misses no record.
TEST(ring_sleep_stress, a_sleeping_receiver_takes_every_record) {
  const std::uint64_t rounds = test::stress_rounds(50'000, 5'000);
  register_for_barriers();
  private_ring r(min_ring);
  doorbell b;
  armed_doorbell watched{&b};
  notify_on_commit(r.out, b);
  std::atomic<std::uint64_t> read{0};
  std::atomic<bool> overslept{false};
  std::thread receiver([&] {
    for (std::uint64_t n = 0; n < rounds; ++n) {
      record_view record = peek(r.in);
      for (const time_point deadline = clock::now() + test::wait_limit; !record;) {
        arm({&watched, 1});
        record = peek(r.in);
        if (!record) sleep_on({&watched, 1}, deadline);
        record = peek(r.in);
        if (!record && clock::now() >= deadline) {
          overslept = true;
          return;
        }
      }
      if (!wrong_with(record, 64, n).empty()) break;
      release(r.in, record);
      // Release; partner: the acquire load below.
      read.store(n + 1, std::memory_order_release);
    }
  });
  for (std::uint64_t n = 0; n < rounds && !overslept; ++n) {
    // One at a time: a later record would wake a sleeper that has missed this one.
    ASSERT_TRUE(test::send(r.out, 64, n));
    // Sometimes so long that the receiver sleeps, sometimes so short that it is about to sleep.
    for (std::uint64_t spins = scrambled(n) % 2000; spins > 0; --spins)
      spin_pause();
    for (test::spinner s; read.load(std::memory_order_acquire) <= n && !overslept; s.pause()) {
    }
    for (std::uint64_t spins = scrambled(n + 1) % 3000; spins > 0; --spins)
      spin_pause();
  }
  receiver.join();
  EXPECT_FALSE(overslept);
  EXPECT_EQ(read.load(), rounds);
}

} // namespace
} // namespace farcall::ring_stress_test
