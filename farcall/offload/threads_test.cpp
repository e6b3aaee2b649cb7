// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/copy/transfer.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::threads_test {
namespace {

using ::testing::HasSubstr;

class threads : public four_targets_test {};

std::uint64_t mix(std::uint64_t v) { return (v ^ (v >> 31)) * 0x9e3779b97f4a7c15U; }

TEST_F(threads, sixteen_to_four_targets) {
  std::vector<std::thread> all;
  std::atomic<std::uint64_t> wrong{0};
  for (std::uint64_t t = 0; t < 16; ++t) {
    all.emplace_back([&, t] {
      std::vector<std::pair<std::uint64_t, future<std::uint64_t>>> pending;
      for (std::uint64_t i = 0; i < 3000; ++i) {
        const node& to = job_.targets()[(t + i) % 4];
        const std::uint64_t v = t << 32 | i;
        if (i % 7 == 0) {
          wrong += sync(to, mix, v) != mix(v) ? 1 : 0;
        } else {
          pending.emplace_back(v, async(to, mix, v));
        }
        if (i % 500 == 0) {
          const std::string text(t * 1000, static_cast<char>('a' + t));
          wrong += sync(to, [](std::string s) { return s; }, text) != text ? 1 : 0;
        }
      }
      for (auto& [v, f] : pending)
        wrong += f.get() != mix(v) ? 1 : 0;
    });
  }
  for (auto& t : all)
    t.join();
  EXPECT_EQ(wrong, 0U);
}

TEST_F(threads, sixteen_with_transfers) {
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 16; ++t) {
    all.emplace_back([&, t] {
      for (std::size_t i = 0; i < 30; ++i) {
        const node& to = job_.targets()[(t + i) % 4];
        std::vector<std::uint64_t> sent(1000 + 100 * t, mix(t * 100 + i));
        const auto memory = to.allocate<std::uint64_t>(sent.size());
        put(sent, memory).get();
        wrong += sync(
            to,
            [](remote_span<const std::uint64_t> s, std::uint64_t v) {
              for (const std::uint64_t e : s)
                if (e != v) return 1;
              return 0;
            },
            memory.span(), sent.front());
        std::vector<std::uint64_t> got(sent.size());
        get(memory, got).get();
        wrong += got != sent ? 1 : 0;
      }
    });
  }
  for (auto& t : all)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(threads, that_come_and_go_use_lanes_again) {
  // A target has 256 lanes; each of these threads needs one.
  for (int i = 0; i < (under_sanitizer ? 400 : 10'000); ++i) {
    std::thread([&] { ASSERT_EQ(sync(target_, [](int v) { return -v; }, i), -i); }).join();
  }
}

TEST_F(threads, that_end_with_calls_under_way) {
  handshake gate(target_);
  std::vector<future<int>> all;
  for (int i = 0; i < 300; ++i) {
    std::thread([&] {
      all.push_back(async(
          target_,
          [](handshake::words w, int v) { return handshake::wait(w.local(), 0, 1) ? v : -1; },
          gate.span(), i));
      // A dropped future.
      (void)async(target_, [] { return std::string(1000, 'x'); });
    }).join();
  }
  gate.set(0);
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].get(), i);
}

/// Calls these nodes one after the other, from `count` threads at once.
void call_from(std::size_t count, const std::vector<node>& nodes) {
  std::barrier at_once(static_cast<std::ptrdiff_t>(count));
  std::atomic<std::size_t> right{0};
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back([&, i] {
      for (const node& to : nodes) {
        at_once.arrive_and_wait();
        future<std::uint64_t> first = async(to, mix, i);
        future<std::uint64_t> second = async(to, mix, i + 1);
        right += second.get() == mix(i + 1) && first.get() == mix(i) ? 1U : 0U;
      }
    });
  }
  for (auto& t : all)
    t.join();
  EXPECT_EQ(right, nodes.size() * count);
}

TEST_F(threads, more_than_lanes_and_doorbells_share_them) {
  const node other = job_.targets()[1];
  call_from(under_sanitizer ? 500 : 4096, {target_});
  // Afterwards other threads use the lanes of the ended ones.
  call_from(450, {target_, other, target_});
  EXPECT_EQ(sync(target_, [] { return 4; }), 4);
}

TEST_F(threads, share_the_lanes_between_two_targets) {
  const auto call_from_there = [](node other, std::size_t count) {
    std::atomic<std::size_t> right{0};
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.emplace_back([&, i] { right += sync(other, mix, i) == mix(i) ? 1U : 0U; });
    }
    for (auto& t : all)
      t.join();
    return right.load();
  };
  EXPECT_EQ(sync(target_, call_from_there, job_.targets()[1], std::size_t{500}), 500U);
}

TEST_F(threads, that_share_lanes_wake_each_other) {
  // Replies come one at a time, long after all threads are asleep.
  constexpr std::size_t count = 500;
  handshake gate(target_);
  std::atomic<std::size_t> done{0};
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back([&] {
      const auto wait_here = [](handshake::words w) { return handshake::wait(w.local(), 0, 1); };
      done += sync(target_, wait_here, gate.span()) ? 1U : 0U;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gate.set(0);
  for (auto& t : all)
    t.join();
  EXPECT_EQ(done, count);
}

} // namespace
} // namespace farcall::test::threads_test
