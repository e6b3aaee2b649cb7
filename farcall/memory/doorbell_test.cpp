// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>
#include <tests/child.hpp>
#include <tests/refused_calls.hpp>
#include <tests/stress.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include <pthread.h>

namespace farcall::doorbell_test {
namespace {

using namespace std::chrono_literals;

std::vector<armed_doorbell> watch(std::span<doorbell> doorbells) {
  std::vector<armed_doorbell> all;
  for (doorbell& b : doorbells)
    all.push_back({&b});
  return all;
}

bool is_up(const doorbell& b) { return (b.word.load() & armed_flag) != 0; }

/// Sleeps, as often as needed, until `b` has been notified. Returns false after a long time.
bool sleep_until_rung(const armed_doorbell& b) {
  const time_point deadline = clock::now() + test::wait_limit;
  while (b.which->word.load() == b.seen && clock::now() < deadline)
    sleep_on({&b, 1}, deadline);
  return clock::now() < deadline;
}

TEST(doorbell, starts_unarmed) { EXPECT_FALSE(is_up(doorbell())); }

TEST(doorbell, arming_sets_every_flag_and_notifying_clears_one) {
  doorbell doorbells[3];
  auto all = watch(doorbells);
  arm(all);
  for (const doorbell& b : doorbells)
    EXPECT_TRUE(is_up(b));
  notify(doorbells[1]);
  EXPECT_TRUE(is_up(doorbells[0]));
  EXPECT_FALSE(is_up(doorbells[1]));
  EXPECT_TRUE(is_up(doorbells[2]));
}

TEST(doorbell, is_notified_only_if_a_thread_sleeps) {
  doorbell b;
  notify_if_armed(b);
  EXPECT_EQ(b.word.load(), 0U);
  armed_doorbell one{&b};
  arm({&one, 1});
  notify_if_armed(b);
  EXPECT_FALSE(is_up(b));
  EXPECT_NE(b.word.load() | armed_flag, one.seen);
}

TEST(doorbell, each_notification_changes_the_word_and_sets_no_flag) {
  doorbell b;
  b.word = ~std::uint32_t{0} - 5; // the count overflows on the way
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t before = b.word.load();
    notify(b);
    EXPECT_NE(b.word.load(), before);
    EXPECT_FALSE(is_up(b));
  }
}

TEST(doorbell, notified_before_the_sleep_is_not_slept_on) {
  for (const std::size_t count : {1U, 2U, 5U}) {
    std::vector<doorbell> doorbells(count);
    auto all = watch(doorbells);
    arm(all);
    notify(doorbells[count - 1]);
    const time_point before = clock::now();
    sleep_on(all, before + test::wait_limit);
    EXPECT_LT(clock::now() - before, test::wait_limit / 2) << count;
  }
}

TEST(doorbell, a_deadline_ends_the_sleep) {
  for (const std::size_t count : {0U, 1U, 3U, 200U}) {
    std::vector<doorbell> doorbells(count);
    auto all = watch(doorbells);
    const time_point deadline = clock::now() + 20ms;
    // sleep_on() may return early.
    while (clock::now() < deadline) {
      arm(all);
      sleep_on(all, deadline);
    }
    EXPECT_LT(clock::now() - deadline, test::wait_limit / 2) << count;
  }
}

TEST(doorbell, deadlines_that_have_passed_or_never_come_are_fine) {
  for (const std::size_t count : {1U, 3U}) {
    std::vector<doorbell> doorbells(count);
    auto all = watch(doorbells);
    arm(all);
    sleep_on(all, clock::now() - 1h);
    sleep_on(all, time_point{});
    sleep_on(all, time_point::min());
    for (doorbell& b : doorbells)
      notify(b);
    std::thread sleeper([&] {
      arm(all);
      while (is_up(doorbells[0]))
        sleep_on(all, time_point::max());
    });
    EXPECT_TRUE(test::eventually([&] { return is_up(doorbells[0]); }));
    notify(doorbells[0]);
    sleeper.join();
  }
}

TEST(doorbell, any_of_several_wakes) {
  // Includes more doorbells than one system call takes.
  for (const std::size_t count : {2U, 3U, 128U, 129U, 300U}) {
    std::vector<doorbell> doorbells(count);
    auto all = watch(doorbells);
    for (const std::size_t rung : {std::size_t{0}, count / 2, count - 1}) {
      std::atomic<bool> in_time{false};
      arm(all);
      std::thread sleeper([&] {
        const time_point deadline = clock::now() + test::wait_limit;
        while (is_up(doorbells[rung]) && clock::now() < deadline)
          sleep_on(all, deadline);
        in_time = clock::now() < deadline;
      });
      std::this_thread::sleep_for(2ms); // mostly it sleeps then; either is fine
      notify_if_armed(doorbells[rung]);
      sleeper.join();
      EXPECT_TRUE(in_time) << "doorbell " << rung << " of " << count;
    }
  }
}

TEST(doorbell, a_notification_wakes_all_sleepers) {
  doorbell b;
  armed_doorbell one{&b};
  arm({&one, 1});
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      if (sleep_until_rung(one)) ++awake;
    });
  }
  std::this_thread::sleep_for(5ms);
  notify(b);
  for (std::thread& t : sleepers)
    t.join();
  EXPECT_EQ(awake.load(), 4);
}

// ---- without futex_waitv ------------------------------------------------------------------------

/// Doorbells of one block, in memory that processes share, and doorbells of this process only.
class several {
 public:
  explicit several(std::size_t in_block, std::size_t others = 0)
      : memory_(segment::create("farcall-doorbell-test",
                                block_doorbell_at + (1 + in_block) * sizeof(doorbell))),
        others_(others) {
    auto* const all = new (memory_.data() + block_doorbell_at) doorbell[1 + in_block];
    for (doorbell& b : std::span(all + 1, in_block)) {
      b.mark = block_mark;
      all_.push_back(&b);
    }
    for (doorbell& b : others_)
      all_.push_back(&b);
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] doorbell& operator[](std::size_t i) const { return *all_[i]; }
  [[nodiscard]] std::vector<armed_doorbell> watched() const {
    std::vector<armed_doorbell> watched;
    for (doorbell* b : all_)
      watched.push_back({b});
    return watched;
  }

 private:
  segment memory_;
  std::vector<doorbell> others_;
  std::vector<doorbell*> all_;
};

/// Returns how often a thread without futex_waitv, which sleeps for all of them, wakes up until
/// `notifier`, perhaps another process, notifies `last`.
int wake_ups(const several& doorbells, std::size_t last, const std::function<void()>& notifier) {
  auto all = doorbells.watched();
  arm(all);
  int count = 0;
  std::thread sleeper([&] {
    test::refuse_futex_waitv();
    const time_point deadline = clock::now() + test::wait_limit;
    while (is_up(doorbells[last]) && clock::now() < deadline) {
      sleep_on(all, deadline);
      ++count;
    }
    EXPECT_LT(clock::now(), deadline) << last << " of " << doorbells.size();
  });
  // So long that a thread that polls would wake up many times.
  std::this_thread::sleep_for(200ms);
  notifier();
  sleeper.join();
  return count;
}

struct several_of {
  std::size_t in_block;
  std::size_t others;
};
// Includes more doorbells than one system call takes.
constexpr several_of kinds[] = {{2, 0}, {300, 0}, {0, 2}, {2, 1}, {0, 300}, {200, 100}};

TEST(doorbell_without_waitv, a_sleeper_on_several_does_not_poll) {
  register_for_barriers();
  // Without the barrier the sleeper has to poll.
  const int most = has_asymmetric_barrier() ? 20 : 1'000'000;
  for (const several_of kind : kinds) {
    const several doorbells(kind.in_block, kind.others);
    for (const std::size_t last : {std::size_t{0}, doorbells.size() - 1}) {
      EXPECT_LT(wake_ups(doorbells, last, [&] { notify_if_armed(doorbells[last]); }), most)
          << kind.in_block << " of a block and " << kind.others << " others";
    }
  }
}

TEST(doorbell_without_waitv, another_process_wakes_a_sleeper_on_several) {
  register_for_barriers();
  const int most = has_asymmetric_barrier() ? 20 : 1'000'000;
  const several doorbells(3, 1);
  const segment memory = segment::create("farcall-doorbell-test", sizeof(std::atomic<int>));
  auto& go = *new (memory.data()) std::atomic<int>{0};
  test::forked_child other([&] {
    while (go.load() == 0)
      std::this_thread::yield();
    notify_if_armed(doorbells[1]);
    return 0;
  });
  EXPECT_LT(wake_ups(doorbells, 1, [&] { go = 1; }), most);
  EXPECT_EQ(other.wait(), 0);
}

TEST(doorbell_without_waitv, doorbells_of_two_blocks_are_polled) {
  register_for_barriers();
  const several first(1);
  const several second(1);
  std::vector<armed_doorbell> all{{&first[0]}, {&second[0]}};
  arm(all);
  std::thread sleeper([&] {
    test::refuse_futex_waitv();
    while (is_up(second[0]))
      sleep_on(all, clock::now() + test::wait_limit);
  });
  notify_if_armed(second[0]);
  sleeper.join();
}

// ---- signals ------------------------------------------------------------------------------------

std::atomic<int> signals{0};

/// Sleeps on `count` doorbells until a signal ends the sleep. Returns false after a long time.
bool a_signal_ends_a_sleep_on(std::size_t count) {
  struct sigaction noting{};
  struct sigaction before{};
  noting.sa_handler = [](int) { ++signals; };
  if (::sigaction(SIGUSR1, &noting, &before) != 0) return false;
  std::atomic<bool> has_ended{false};
  // The thread may get a signal before it sleeps, so send signals until one has ended its sleep.
  std::thread sender([&, self = ::pthread_self()] {
    while (!has_ended) {
      ::pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<doorbell> doorbells(count);
  auto all = watch(doorbells);
  const time_point deadline = clock::now() + test::wait_limit;
  bool was_ended = false;
  while (!was_ended && clock::now() < deadline) {
    arm(all);
    was_ended = sleep_on(all, deadline);
  }
  has_ended = true;
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  return was_ended;
}

TEST(doorbell, reports_signals_that_end_a_sleep) {
  EXPECT_TRUE(a_signal_ends_a_sleep_on(1));
  EXPECT_TRUE(a_signal_ends_a_sleep_on(3));
}

TEST(doorbell, reports_no_signal_without_one) {
  doorbell b;
  armed_doorbell one{&b};
  arm({&one, 1});
  EXPECT_FALSE(sleep_on({&one, 1}, clock::now() + 1ms));
  notify(b);
  EXPECT_FALSE(sleep_on({&one, 1}, clock::now() + test::wait_limit));
}

// ---- lost wake-ups ------------------------------------------------------------------------------

// The flag alone would not tell: it is set again when the first sleeper goes to sleep.
TEST(doorbell, a_notification_is_noticed_after_another_sleeper_arms) {
  for (const std::size_t count : {1U, 2U}) {
    std::vector<doorbell> doorbells(count);
    auto first = watch(doorbells);
    auto second = watch(doorbells);
    arm(first);
    notify_if_armed(doorbells[0]);
    arm(second);
    const time_point before = clock::now();
    sleep_on(first, before + test::wait_limit);
    EXPECT_LT(clock::now() - before, test::wait_limit / 2) << count;
  }
}

/// Two sides that pass a number back and forth, and sleep while the other side has it. A lost
/// wake-up leaves both asleep.
struct ping_pong {
  doorbell doorbells[2];
  alignas(line_bytes) std::atomic<std::uint64_t> turn{0}; ///< even or odd, by side
  alignas(line_bytes) std::atomic<bool> overslept{false};
};

void play(ping_pong& game, unsigned side, std::uint64_t rounds) {
  armed_doorbell own{&game.doorbells[side]};
  for (std::uint64_t n = side; n < rounds && !game.overslept; n += 2) {
    // Acquire; partner: the release store below.
    const auto is_our_turn = [&] { return game.turn.load(std::memory_order_acquire) == n; };
    // Spin for a random time, so that the other side finds us anywhere between polling and
    // sleeping.
    for (std::uint64_t spins = test::scrambled(n) % 400; spins > 0 && !is_our_turn(); --spins) {
      spin_pause();
    }
    const time_point deadline = clock::now() + test::wait_limit;
    while (!is_our_turn()) {
      arm({&own, 1});
      if (is_our_turn()) break;
      sleep_on({&own, 1}, deadline);
      if (clock::now() >= deadline) {
        if (!is_our_turn()) game.overslept = true;
        return;
      }
    }
    game.turn.store(n + 1, std::memory_order_release);
    notify_if_armed(game.doorbells[1 - side]);
  }
}

std::uint64_t rounds() {
  // Without the barrier a sleeper polls once a millisecond.
  if (!has_asymmetric_barrier()) return 2'000;
  return test::stress_rounds(60'000, 10'000);
}

TEST(doorbell, wakes_each_sleeper_between_two_threads) {
  register_for_barriers();
  ping_pong game;
  std::thread other([&] { play(game, 1, rounds()); });
  play(game, 0, rounds());
  other.join();
  EXPECT_FALSE(game.overslept) << "in round " << game.turn;
  EXPECT_EQ(game.turn, rounds());
}

TEST(doorbell, wakes_each_sleeper_between_two_processes) {
  const segment memory = segment::create("farcall-doorbell-test", sizeof(ping_pong));
  auto& game = *new (memory.data()) ping_pong;
  test::forked_child other([&] {
    register_for_barriers();
    play(game, 1, rounds());
    return 0;
  });
  register_for_barriers();
  play(game, 0, rounds());
  EXPECT_EQ(other.wait(), 0);
  EXPECT_FALSE(game.overslept) << "in round " << game.turn;
  EXPECT_EQ(game.turn, rounds());
}

// One sleeper sleeps on doorbells that two other threads notify.
void sleep_among(const several& doorbells, bool has_futex_waitv) {
  constexpr std::uint64_t each = test::under_sanitizer ? 2'000 : 10'000;
  register_for_barriers();
  auto all = doorbells.watched();
  std::atomic<std::uint64_t> sent[2] = {0, 0};
  std::atomic<std::uint64_t> taken[2] = {0, 0};
  std::atomic<bool> overslept{false};
  const auto send = [&](unsigned side) {
    for (std::uint64_t n = 1; n <= each && !overslept; ++n) {
      sent[side].store(n, std::memory_order_release);
      notify_if_armed(doorbells[side]);
      // One at a time: the next notification would wake a sleeper that has missed this one.
      for (test::spinner s; taken[side].load() < n && !overslept; s.pause()) {
      }
    }
  };
  std::thread first([&] { send(0); });
  std::thread second([&] { send(1); });
  std::thread sleeper([&] {
    if (!has_futex_waitv) test::refuse_futex_waitv();
    std::uint64_t seen[2] = {0, 0};
    while (seen[0] < each || seen[1] < each) {
      const auto look = [&] {
        bool found = false;
        for (const unsigned side : {0U, 1U}) {
          const std::uint64_t n = sent[side].load(std::memory_order_acquire);
          found = found || n != seen[side];
          seen[side] = n;
          taken[side] = n;
        }
        return found;
      };
      if (look()) continue;
      arm(all);
      if (look()) continue;
      const time_point deadline = clock::now() + test::wait_limit;
      sleep_on(all, deadline);
      if (clock::now() >= deadline && !look()) {
        overslept = true;
        break;
      }
    }
  });
  sleeper.join();
  first.join();
  second.join();
  EXPECT_FALSE(overslept);
}

TEST(doorbell, wakes_each_sleeper_on_several_doorbells) {
  sleep_among(several(2), true);
  sleep_among(several(0, 2), true);
}

TEST(doorbell_without_waitv, wakes_each_sleeper_on_several_doorbells) {
  sleep_among(several(2), false);
  sleep_among(several(0, 2), false);
  sleep_among(several(1, 1), false);
}

// ---- barriers -----------------------------------------------------------------------------------

TEST(barrier, registering_makes_it_work_and_may_be_repeated) {
  register_for_barriers();
  register_for_barriers();
  EXPECT_EQ(process_barrier(), has_asymmetric_barrier());
}

} // namespace
} // namespace farcall::doorbell_test
