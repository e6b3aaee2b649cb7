// SPDX-License-Identifier: Apache-2.0

// Tests of the explorer, with small programs whose possible results are known.

#include <tests/model/explorer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::check {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using results = std::set<std::pair<int, int>>;

constexpr auto relaxed = std::memory_order_relaxed;

/// Returns the results of two threads, each of which stores to its variable and then loads the
/// other's.
results store_buffering(std::memory_order store, std::memory_order load, bool fenced) {
  results all;
  const outcome o = explore([&](execution& run) {
    std::atomic<int> x{0};
    std::atomic<int> y{0};
    int a = -1;
    int b = -1;
    run.thread([&] {
      x.store(1, store);
      if (fenced) std::atomic_thread_fence(std::memory_order_seq_cst);
      a = y.load(load);
    });
    run.thread([&] {
      y.store(1, store);
      if (fenced) std::atomic_thread_fence(std::memory_order_seq_cst);
      b = x.load(load);
    });
    if (run.join()) all.emplace(a, b);
  });
  EXPECT_TRUE(o.is_complete) << o.wrong;
  return all;
}

TEST(explorer, a_store_may_become_visible_late) {
  const results all{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(store_buffering(relaxed, relaxed, false), all);
  EXPECT_EQ(store_buffering(std::memory_order_release, std::memory_order_acquire, false), all);
}

TEST(explorer, a_fence_makes_earlier_stores_visible) {
  const results without_zeros{{0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(store_buffering(relaxed, relaxed, true), without_zeros);
  EXPECT_EQ(store_buffering(std::memory_order_seq_cst, std::memory_order_seq_cst, false),
            without_zeros);
}

TEST(explorer, one_threads_barrier_is_a_fence_for_all) {
  results all;
  const outcome o = explore([&](execution& run) {
    std::atomic<int> x{0};
    std::atomic<int> y{0};
    int a = -1;
    int b = -1;
    run.thread([&] {
      x.store(1, relaxed);
      a = y.load(relaxed);
    });
    run.thread([&] {
      y.store(1, relaxed);
      barrier({std::source_location::current(), operation::barrier, std::memory_order_seq_cst});
      b = x.load(relaxed);
    });
    if (run.join()) all.emplace(a, b);
  });
  EXPECT_TRUE(o.is_complete) << o.wrong;
  EXPECT_EQ(all, (results{{0, 1}, {1, 0}, {1, 1}}));
}

/// Returns the values that the second thread may read: of the flag, and of the data stored before.
results message_passing(std::memory_order store, std::memory_order load) {
  results all;
  const outcome o = explore([&](execution& run) {
    std::atomic<int> data{0};
    std::atomic<int> flag{0};
    int f = -1;
    int d = -1;
    run.thread([&] {
      data.store(1, relaxed);
      flag.store(1, store);
    });
    run.thread([&] {
      f = flag.load(load);
      d = data.load(relaxed);
    });
    if (run.join()) all.emplace(f, d);
  });
  EXPECT_TRUE(o.is_complete) << o.wrong;
  return all;
}

TEST(explorer, release_and_acquire_make_stores_visible_in_order) {
  const results all{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(message_passing(relaxed, relaxed), all);
  EXPECT_EQ(message_passing(relaxed, std::memory_order_acquire), all);
  EXPECT_EQ(message_passing(std::memory_order_release, relaxed), all);
  const results in_order{{0, 0}, {0, 1}, {1, 1}};
  EXPECT_EQ(message_passing(std::memory_order_release, std::memory_order_acquire), in_order);
}

TEST(explorer, changes_one_operation_of_the_code) {
  const scenario pass = [](execution& run) {
    std::atomic<bool> flag{false};
    std::uint32_t x = 0;
    run.thread([&] {
      plain_write(&x, 1);
      flag.store(true, std::memory_order_release);
    });
    run.thread([&] {
      while (!flag.load(std::memory_order_acquire))
        std::this_thread::yield();
      run.require(plain_read(&x) == 1, "not there");
    });
    (void)run.join();
  };
  const outcome correct = explore(pass);
  EXPECT_TRUE(correct.is_complete) << correct.wrong;
  std::vector<std::string> wrong;
  for (const site& s : correct.sites) {
    for (const mutation m : {mutation::weaken, mutation::omit}) {
      const outcome o = explore(pass, {m, s});
      if (!o.wrong.empty()) {
        wrong.push_back(std::string(word_of(s.what)) + ' ' + word_of(m) + ": " +
                        o.wrong.substr(0, o.wrong.find_first_of(":\n")));
      }
    }
  }
  EXPECT_THAT(wrong,
              UnorderedElementsAre("store weakened: a data race", "load weakened: a data race",
                                   "store omitted: no thread can go on",
                                   "load omitted: no thread can go on"));
}

TEST(explorer, delays_a_store) {
  // Each thread writes its variable before it reads the other's, unless its store is delayed.
  const scenario meet = [](execution& run) {
    std::atomic<int> x{0};
    std::atomic<int> y{0};
    std::array<int, 2> seen{};
    run.thread([&] {
      x.exchange(1, std::memory_order_seq_cst);
      seen[0] = y.load(std::memory_order_seq_cst);
    });
    run.thread([&] {
      y.store(1, std::memory_order_seq_cst);
      seen[1] = x.load(std::memory_order_seq_cst);
    });
    if (run.join()) run.require(seen[0] + seen[1] != 0, "they have missed each other");
  };
  const outcome correct = explore(meet);
  EXPECT_TRUE(correct.is_complete) << correct.wrong;
  for (const site& s : correct.sites) {
    if (s.what != operation::store) continue;
    EXPECT_THAT(explore(meet, {mutation::delay, s}).wrong, HasSubstr("missed each other"));
  }
}

TEST(explorer, repeats_what_a_thread_has_read) {
  const scenario follow = [](execution& run) {
    std::array<int, 2> x{};
    std::atomic<int*> at{&x[0]};
    std::atomic<bool> flag{false};
    run.thread([&] {
      at.store(&x[1], relaxed);
      flag.store(true, std::memory_order_release);
    });
    run.thread([&] {
      const int* const before = at.load(relaxed);
      if (!flag.load(std::memory_order_acquire)) return;
      const int* const after = at.load(relaxed);
      run.require(before <= after && after == &x[1], "an old pointer");
    });
    (void)run.join();
  };
  const outcome correct = explore(follow);
  EXPECT_TRUE(correct.is_complete) << correct.wrong;
  std::size_t found = 0;
  for (const site& s : correct.sites) {
    if (s.what == operation::load && s.is_pointer)
      found += explore(follow, {mutation::repeat, s}).wrong.empty() ? 0U : 1U;
  }
  EXPECT_EQ(found, 1U) << "the second load of two";
}

TEST(explorer, a_location_is_never_seen_going_back) {
  std::set<std::string> all;
  const outcome o = explore([&](execution& run) {
    std::atomic<int> x{0};
    std::string seen;
    run.thread([&] {
      x.store(1, relaxed);
      x.store(2, relaxed);
    });
    run.thread([&] {
      const int first = x.load(relaxed);
      seen = std::to_string(first * 10 + x.load(relaxed));
    });
    if (run.join()) all.insert(seen);
  });
  EXPECT_TRUE(o.is_complete) << o.wrong;
  EXPECT_THAT(all, UnorderedElementsAre("0", "1", "2", "11", "12", "22"));
}

TEST(explorer, updates_lose_nothing_and_loads_and_stores_do) {
  std::set<int> updated;
  std::set<int> stored;
  for (const bool by_update : {true, false}) {
    const outcome o = explore([&](execution& run) {
      std::atomic<int> x{0};
      const auto twice = [&] {
        for (int i = 0; i < 2; ++i) {
          if (by_update) {
            x.fetch_add(1, relaxed);
          } else {
            x.store(x.load(relaxed) + 1, relaxed);
          }
        }
      };
      run.thread(twice);
      run.thread(twice);
      if (run.join()) (by_update ? updated : stored).insert(x.load(relaxed));
    });
    EXPECT_TRUE(o.is_complete) << o.wrong;
  }
  EXPECT_THAT(updated, UnorderedElementsAre(4));
  EXPECT_THAT(stored, UnorderedElementsAre(2, 3, 4));
}

TEST(explorer, a_mutex_excludes_other_threads_and_publishes_changes) {
  const auto sum = [](bool locked) {
    return explore([locked](execution& run) {
      std::mutex guard;
      std::uint32_t x = 0;
      const auto add = [&] {
        if (locked) guard.lock();
        plain_write(&x, plain_read(&x) + 1);
        if (locked) guard.unlock();
      };
      std::atomic<int> other{0}; // an atomic operation, at which threads can be switched
      run.thread([&] {
        other.store(1, relaxed);
        add();
      });
      run.thread([&] {
        other.store(2, relaxed);
        add();
      });
      if (run.join()) run.require(x == 2, "lost");
    });
  };
  EXPECT_TRUE(sum(true).is_complete) << sum(true).wrong;
  EXPECT_THAT(sum(false).wrong, HasSubstr("data race"));
}

TEST(explorer, a_release_does_not_publish_later_stores) {
  const auto pass = [](bool before) {
    return explore([before](execution& run) {
      std::atomic<bool> flag{false};
      std::uint32_t x = 0;
      run.thread([&] {
        if (before) plain_write(&x, 1);
        flag.store(true, std::memory_order_release);
        if (!before) plain_write(&x, 1);
      });
      run.thread([&] {
        if (flag.load(std::memory_order_acquire)) (void)plain_read(&x);
      });
      (void)run.join();
    });
  };
  EXPECT_TRUE(pass(true).is_complete) << pass(true).wrong;
  EXPECT_THAT(pass(false).wrong, HasSubstr("data race"));
}

TEST(explorer, finds_threads_that_wait_for_each_other) {
  const outcome o = explore([](execution& run) {
    std::mutex a;
    std::mutex b;
    const auto both = [](std::mutex& first, std::mutex& second) {
      first.lock();
      second.lock();
      second.unlock();
      first.unlock();
    };
    run.thread([&] { both(a, b); });
    run.thread([&] { both(b, a); });
    (void)run.join();
  });
  EXPECT_THAT(o.wrong, HasSubstr("no thread can go on"));
  EXPECT_THAT(o.wrong, HasSubstr("thread 2: "));
  EXPECT_THAT(o.wrong, HasSubstr(": lock"));
}

TEST(explorer, polling_threads_go_on_after_a_change) {
  const auto wait = [](bool stored) {
    return explore([stored](execution& run) {
      std::atomic<int> x{0};
      run.thread([&] {
        while (x.load(relaxed) == 0)
          std::this_thread::yield();
      });
      run.thread([&] {
        if (stored) x.store(1, relaxed);
      });
      (void)run.join();
    });
  };
  EXPECT_TRUE(wait(true).is_complete) << wait(true).wrong;
  EXPECT_THAT(wait(false).wrong, HasSubstr("no thread can go on"));
}

TEST(explorer, finds_a_loop_that_does_not_end) {
  const outcome o = explore([](execution& run) {
    std::atomic<int> x{0};
    run.thread([&] {
      while (x.load(relaxed) == 0) {
      }
    });
    (void)run.join();
  });
  EXPECT_THAT(o.wrong, HasSubstr("more operations"));
}

TEST(explorer, leaves_out_equivalent_orders) {
  const outcome apart = explore([](execution& run) {
    std::atomic<int> x{0};
    std::atomic<int> y{0};
    run.thread([&] {
      for (int i = 0; i < 5; ++i)
        x.store(i, relaxed);
    });
    run.thread([&] {
      for (int i = 0; i < 5; ++i)
        y.store(i, relaxed);
    });
    (void)run.join();
  });
  EXPECT_TRUE(apart.is_complete);
  EXPECT_LT(apart.executions, 20U) << "of 252 orders";
}

/// Executes operation number `what` on two variables.
void act(unsigned what, std::atomic<int>& x, std::atomic<int>& y, int value, std::string& seen) {
  constexpr auto acquire = std::memory_order_acquire;
  constexpr auto release = std::memory_order_release;
  constexpr auto ordered = std::memory_order_seq_cst;
  const auto note = [&](int v) { seen += std::to_string(v) + ' '; };
  std::atomic<int>& z = what % 2 == 0 ? x : y;
  switch (what / 2) {
  case 0:
    return note(z.load(relaxed));
  case 1:
    return note(z.load(acquire));
  case 2:
    return z.store(value, relaxed);
  case 3:
    return z.store(value, release);
  case 4:
    return note(z.fetch_add(value, relaxed));
  case 5:
    return note(z.exchange(value, std::memory_order_acq_rel));
  case 6:
    return note(z.load(ordered));
  case 7:
    return z.store(value, ordered);
  default:
    if (what % 2 == 0) return std::atomic_thread_fence(ordered);
    return barrier({std::source_location::current(), operation::barrier, ordered});
  }
}
constexpr unsigned acts = 18;

TEST(explorer, omitted_orders_have_no_other_results) {
  std::minstd_rand random(1);
  std::uint64_t all_orders = 0;
  std::uint64_t fewer_orders = 0;
  for (int program = 0; program < 400; ++program) {
    std::array<std::array<unsigned, 3>, 3> code{};
    const std::size_t threads = program % 8 == 0 ? 3 : 2;
    for (auto& thread : code) {
      for (unsigned& what : thread)
        what = static_cast<unsigned>(random() % acts);
      // Usually the middle operation is a fence or a barrier.
      if (random() % 3 != 0) thread[1] = acts - 1 - static_cast<unsigned>(random() % 2);
    }
    const auto results_of = [&](bool leaves_out) {
      std::set<std::string> all;
      const outcome o = explore(
          [&](execution& run) {
            std::atomic<int> x{0};
            std::atomic<int> y{0};
            std::array<std::string, 3> seen;
            for (std::size_t t = 0; t < threads; ++t) {
              run.thread([&, t] {
                for (std::size_t i = 0; i < code[t].size(); ++i)
                  act(code[t][i], x, y, static_cast<int>(10 * t + i + 1), seen[t]);
              });
            }
            if (run.join()) {
              all.insert(seen[0] + '|' + seen[1] + '|' + seen[2] + '|' +
                         std::to_string(x.load(relaxed)) + ' ' + std::to_string(y.load(relaxed)));
            }
          },
          {}, {.leaves_out = leaves_out});
      EXPECT_TRUE(o.is_complete) << o.wrong;
      (leaves_out ? fewer_orders : all_orders) += o.executions;
      return all;
    };
    ASSERT_EQ(results_of(true), results_of(false)) << "program " << program;
  }
  EXPECT_LT(fewer_orders, all_orders / 2);
}

TEST(explorer, reports_an_incomplete_exploration) {
  const outcome o = explore(
      [](execution& run) {
        std::atomic<int> x{0};
        const auto count = [&] {
          for (int i = 0; i < 5; ++i)
            x.fetch_add(1, relaxed);
        };
        run.thread(count);
        run.thread(count);
        (void)run.join();
      },
      {}, {.executions = 100});
  EXPECT_EQ(o.executions, 100U);
  EXPECT_FALSE(o.is_complete);
  EXPECT_EQ(o.wrong, "");
}

} // namespace
} // namespace farcall::check
