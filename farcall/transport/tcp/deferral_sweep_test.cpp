// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/deferral_sweep.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace farcall::tcp::deferral_sweep_test {
namespace {

using test::eventually;

TEST(deferral_sweeps, run_soon_after_a_note) {
  event_loop loop;
  int sweeps = 0;
  const counted_ptr<deferral_sweep> sweep(new deferral_sweep(loop, [&] { ++sweeps; }));
  time_point now = clock::now() + std::chrono::hours(1);
  loop.turn(now);
  EXPECT_EQ(sweeps, 0);
  sweep->note();
  sweep->note();
  loop.turn(now);
  EXPECT_EQ(sweeps, 1);
  loop.turn(now + std::chrono::hours(1));
  EXPECT_EQ(sweeps, 2) << "a lane may have put off sending meanwhile";
  loop.turn(now + std::chrono::hours(2));
  EXPECT_EQ(sweeps, 2);
  sweep->note();
  loop.turn(now + std::chrono::hours(3));
  EXPECT_EQ(sweeps, 3);
  sweep->stop();
  sweep->note();
  loop.turn(now + std::chrono::hours(4));
  EXPECT_EQ(sweeps, 3);
}

// Each job of a process has a transport; the transports share the loop.
TEST(deferral_sweeps, share_a_loop) {
  event_loop loop("farcall-test");
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  const counted_ptr<deferral_sweep> one(new deferral_sweep(loop, [&] { ++first; }));
  const counted_ptr<deferral_sweep> other(new deferral_sweep(loop, [&] { ++second; }));
  one->note();
  EXPECT_TRUE(eventually([&] { return first > 0; }));
  other->note();
  EXPECT_TRUE(eventually([&] { return second > 0; }));
  other->stop();
  const int before = first;
  one->note();
  EXPECT_TRUE(eventually([&] { return first > before; }));
  one->stop();
}

TEST(deferral_sweeps, follow_each_note_of_another_thread) {
  event_loop loop("farcall-test");
  std::atomic<int> noted{0};
  std::atomic<int> swept{0};
  const counted_ptr<deferral_sweep> sweep(
      new deferral_sweep(loop, [&] { swept.store(noted.load()); }));
  std::jthread([&] {
    for (int i = 1; i <= 300; ++i) {
      noted = i;
      sweep->note();
      if (i % 10 != 0) continue;
      EXPECT_TRUE(eventually([&] { return swept == i; }));
    }
  }).join();
  sweep->stop();
}

} // namespace
} // namespace farcall::tcp::deferral_sweep_test
