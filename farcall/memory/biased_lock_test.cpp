// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/biased_lock.hpp>
#include <tests/child.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace farcall::biased_lock_test {
namespace {

constexpr std::uint64_t many = test::under_sanitizer ? 10'000 : 150'000;
constexpr std::uint64_t some = test::under_sanitizer ? 1'000 : 10'000;

/// Counters that the lock guards. Not atomic, so that two holders at once lose counts, and
/// ThreadSanitizer sees them.
struct guarded {
  biased_lock lock;
  std::uint64_t counter = 0;
  std::atomic<bool> inside{false};
  std::atomic<bool> two_at_once{false};

  /// Called with the lock held. Plain loads and stores only: anything stronger would order what the
  /// lock has to order.
  void count() {
    if (inside.load(std::memory_order_relaxed)) two_at_once.store(true, std::memory_order_relaxed);
    inside.store(true, std::memory_order_relaxed);
    const std::uint64_t before = counter;
    for (std::uint64_t spins = before % 8; spins > 0; --spins)
      spin_pause();
    counter = before + 1;
    inside.store(false, std::memory_order_relaxed);
  }
  void lock_and_count() {
    const std::lock_guard guard(lock);
    count();
  }
};

/// Takes the lock by try_lock, which may fail for no reason.
void try_and_count(guarded& g) {
  for (test::spinner s; !g.lock.try_lock(); s.pause()) {
  }
  g.count();
  g.lock.unlock();
}

TEST(this_thread_mark, differs_between_threads_that_live_at_one_time) {
  const void* const ours = this_thread_mark();
  EXPECT_EQ(ours, this_thread_mark());
  const void* theirs = nullptr;
  std::thread([&] { theirs = this_thread_mark(); }).join();
  EXPECT_NE(ours, theirs);
}

// The lock's last user may destroy it.
TEST(biased_lock, can_be_destroyed_once_settled) {
  for (std::uint64_t i = 0; i < some / 10; ++i) {
    auto g = std::make_unique<guarded>();
    g->lock.lock(); // makes this thread the owner
    g->lock.unlock();
    std::thread other([&g = *g] { g.lock_and_count(); });
    for (test::spinner s;; s.pause()) {
      g->lock.lock();
      const bool done = g->counter == 1;
      g->lock.unlock();
      if (done) break;
    }
    g->lock.settle();
    g.reset();
    other.join();
  }
}

TEST(biased_lock, one_thread_can_take_it_over_and_over) {
  guarded g;
  for (std::uint64_t i = 0; i < 1000; ++i)
    g.lock_and_count();
  EXPECT_EQ(g.counter, 1000U);
}

TEST(biased_lock, keeps_others_out_while_its_owner_holds_it) {
  guarded g;
  g.lock_and_count(); // makes this thread the owner
  g.lock.lock();
  std::atomic<bool> asked{false};
  std::atomic<bool> in{false};
  std::thread other([&] {
    EXPECT_FALSE(g.lock.try_lock());
    asked = true;
    g.lock.lock();
    in = true;
    g.lock.unlock();
  });
  EXPECT_TRUE(test::eventually([&] { return asked.load(); }));
  for (int i = 0; i < 1000; ++i)
    std::this_thread::yield();
  EXPECT_FALSE(in);
  g.lock.unlock();
  other.join();
  EXPECT_TRUE(in);
}

TEST(biased_lock, keeps_its_owner_out_while_another_holds_it) {
  guarded g;
  g.lock_and_count();
  std::atomic<bool> held{false};
  std::atomic<bool> may_unlock{false};
  std::thread other([&] {
    g.lock.lock();
    held = true;
    while (!may_unlock)
      std::this_thread::yield();
    held = false;
    g.lock.unlock();
  });
  EXPECT_TRUE(test::eventually([&] { return held.load(); }));
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(g.lock.try_lock());
  may_unlock = true;
  g.lock.lock();
  EXPECT_FALSE(held);
  g.lock.unlock();
  other.join();
}

TEST(biased_lock, is_free_again_after_try_lock_and_unlock) {
  guarded g;
  for (int round = 0; round < 100; ++round) {
    try_and_count(g);
    std::thread([&] { try_and_count(g); }).join();
  }
  EXPECT_EQ(g.counter, 200U);
}

TEST(biased_lock, loses_no_count_of_owner_and_others) {
  guarded g;
  g.lock_and_count();
  std::atomic<int> running{2};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      for (std::uint64_t n = 0; n < many; ++n) {
        g.lock_and_count();
        // Has no effect while this thread does not own the lock.
        if (n % 4 == 0) g.lock.disown();
        // Pause, so that the owner takes the lock many times in between.
        for (std::uint64_t spins = test::scrambled(n) % 16; spins > 0; --spins)
          spin_pause();
      }
      --running;
    });
  }
  // The owner takes and releases the lock in a tight loop.
  std::uint64_t owners = 1;
  for (; running != 0; ++owners)
    g.lock_and_count();
  for (std::thread& t : others)
    t.join();
  EXPECT_EQ(g.counter, owners + 2 * many);
  EXPECT_FALSE(g.two_at_once);
}

TEST(biased_lock, is_rebiased_to_the_thread_that_takes_it) {
  guarded g;
  g.lock_and_count();
  EXPECT_TRUE(g.lock.is_owned_by_this_thread());
  std::thread([&] {
    EXPECT_FALSE(g.lock.is_owned_by_this_thread());
    g.lock_and_count();
    EXPECT_FALSE(g.lock.is_owned_by_this_thread());
    for (int i = 0; i < 100; ++i)
      g.lock_and_count();
    EXPECT_TRUE(g.lock.is_owned_by_this_thread());
    // Let the next thread become the owner.
    g.lock.disown();
    EXPECT_FALSE(g.lock.is_owned_by_this_thread());
  }).join();
  EXPECT_FALSE(g.lock.is_owned_by_this_thread());
  g.lock_and_count();
  EXPECT_TRUE(g.lock.is_owned_by_this_thread());
  EXPECT_EQ(g.counter, 103U);
}

TEST(biased_lock, works_after_its_owner_slots_are_used_up) {
  guarded g;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      for (int i = 0; i < 100; ++i)
        g.lock_and_count();
    }).join();
  }
  EXPECT_EQ(g.counter, 2000U);
}

TEST(biased_lock, loses_no_count_while_it_is_rebiased) {
  constexpr std::uint64_t turns = 400;
  // Make a new lock each time, since its owner slots are soon used up.
  for (std::uint64_t round = 0; round < some / 10; ++round) {
    guarded g;
    g.lock_and_count();
    std::thread other([&] {
      for (std::uint64_t n = 0; n < turns; ++n)
        g.lock_and_count();
    });
    for (std::uint64_t n = 0; n < turns; ++n) {
      g.lock_and_count();
      // Pause now and then, so long that the other thread is alone.
      if (test::scrambled(round * turns + n) % 64 == 0) {
        for (int spins = 0; spins < 500; ++spins)
          spin_pause();
      }
    }
    other.join();
    ASSERT_EQ(g.counter, 2 * turns + 1);
    ASSERT_FALSE(g.two_at_once);
  }
}

TEST(biased_lock, loses_no_count_while_it_goes_shared) {
  for (int round = 0; round < 20; ++round) {
    guarded g;
    g.lock_and_count(); // makes this thread the owner
    std::atomic<bool> go{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i) {
      others.emplace_back([&, i] {
        while (!go)
          std::this_thread::yield();
        for (std::uint64_t n = 0; n < some / 20; ++n) {
          if (i == 3) {
            try_and_count(g);
          } else {
            g.lock_and_count();
          }
          std::this_thread::yield();
        }
      });
    }
    go = true;
    for (std::uint64_t n = 0; n < some; ++n)
      g.lock_and_count();
    for (std::thread& t : others)
      t.join();
    g.lock.settle();
    EXPECT_EQ(g.counter, 1 + some + 4 * (some / 20));
    EXPECT_FALSE(g.two_at_once);
  }
}

TEST(biased_lock, that_is_shared_is_free_in_a_child) {
  guarded g;
  g.lock_and_count();
  for (int i = 0; i < 40; ++i)
    std::thread([&] { g.lock_and_count(); }).join();
  test::forked_child child([&] {
    g.lock_and_count();
    const bool is_ours = g.lock.is_owned_by_this_thread();
    g.lock_and_count();
    return is_ours && g.counter == 43 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(biased_lock, lock_and_try_lock_exclude_each_other) {
  guarded g;
  std::thread other([&] {
    for (std::uint64_t n = 0; n < some; ++n) {
      if (test::scrambled(n) % 2 == 0) {
        g.lock_and_count();
      } else {
        try_and_count(g);
      }
    }
  });
  for (std::uint64_t n = 0; n < some; ++n) {
    if (test::scrambled(~n) % 2 == 0) {
      g.lock_and_count();
    } else {
      try_and_count(g);
    }
  }
  other.join();
  EXPECT_EQ(g.counter, 2 * some);
  EXPECT_FALSE(g.two_at_once);
}

TEST(biased_lock, an_owner_in_a_loop_cannot_keep_others_out) {
  guarded g;
  g.lock_and_count();
  std::atomic<std::uint64_t> got_in{0};
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      g.lock_and_count();
      ++got_in;
    }
  });
  const time_point deadline = clock::now() + test::wait_limit;
  while (got_in < 100 && clock::now() < deadline) {
    for (int i = 0; i < 1000; ++i)
      g.lock_and_count();
  }
  EXPECT_EQ(got_in.load(), 100U);
  other.join();
}

TEST(biased_lock, disowning_by_other_threads_has_no_effect) {
  guarded g;
  g.lock.disown(); // has no owner
  g.lock_and_count();
  std::thread([&] {
    g.lock.disown();
    g.lock_and_count();
    g.lock.disown();
  }).join();
  g.lock_and_count();
  g.lock.disown();
  g.lock.disown();
  EXPECT_EQ(g.counter, 3U);
}

TEST(biased_lock, passes_from_thread_to_thread_as_they_end) {
  guarded g;
  std::atomic<bool> over{false};
  // A thread that is never the first to come, and takes the lock all the time.
  g.lock_and_count();
  std::uint64_t stranger_counts = 0;
  std::thread stranger([&] {
    while (!over) {
      g.lock_and_count();
      ++stranger_counts;
      std::this_thread::yield();
    }
    g.lock.disown();
  });
  g.lock.disown();
  constexpr std::uint64_t threads = 50;
  for (std::uint64_t t = 0; t < threads; ++t) {
    std::thread([&] {
      for (std::uint64_t n = 0; n < some / 10; ++n)
        g.lock_and_count();
      g.lock.disown();
    }).join();
  }
  over = true;
  stranger.join();
  EXPECT_EQ(g.counter, 1 + threads * (some / 10) + stranger_counts);
  EXPECT_FALSE(g.two_at_once);
}

// The first thread that comes adopts a lock without an owner; here each thread keeps giving it up.
TEST(biased_lock, may_be_adopted_and_given_up_all_the_time) {
  guarded g;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&g, t] {
      for (std::uint64_t n = 0; n < some; ++n) {
        const std::uint64_t dice = test::scrambled(n * 3 + t);
        if (dice % 4 == 0) {
          try_and_count(g);
        } else {
          g.lock_and_count();
        }
        if (dice / 4 % 3 == 0) g.lock.disown();
      }
      g.lock.disown();
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(g.counter, 3 * some);
  EXPECT_FALSE(g.two_at_once);
}

// Each thread owns one lock and now and then takes the others' too, as threads that share lanes do.
// ---- in a child of a fork -----------------------------------------------------------------------

/// Returns the exit status of a child that takes and releases the lock twice.
int taken_in_child(biased_lock& lock) {
  return test::forked_child([&] {
           for (int i = 0; i < 2; ++i) {
             lock.lock();
             lock.unlock();
           }
           return lock.try_lock() ? 0 : 1;
         })
      .wait();
}

TEST(biased_lock, is_free_in_a_child_after_any_holder) {
  for (const bool by_owner : {true, false}) {
    biased_lock lock;
    if (!by_owner) {
      lock.lock();
      lock.unlock();
    }
    std::atomic<int> step{0};
    std::thread holder([&] {
      lock.lock();
      step = 1;
      EXPECT_TRUE(test::eventually([&] { return step == 2; }));
      lock.unlock();
    });
    ASSERT_TRUE(test::eventually([&] { return step == 1; }));
    EXPECT_EQ(taken_in_child(lock), 0);
    EXPECT_FALSE(lock.try_lock()) << "in the parent it is as it was";
    step = 2;
    holder.join();
    const std::lock_guard guard(lock);
  }
}

TEST(biased_lock, stays_owned_by_a_forking_thread_in_the_child) {
  biased_lock lock;
  lock.lock();
  EXPECT_EQ(test::forked_child([&] {
              lock.unlock();
              lock.lock();
              lock.unlock();
              int taken = 0;
              std::thread([&] {
                const std::lock_guard guard(lock);
                taken = 1;
              }).join();
              return taken == 1 ? 0 : 1;
            }).wait(),
            0);
  lock.unlock();
}

TEST(biased_lock, many_locks_with_an_owner_each) {
  constexpr std::size_t count = 3;
  const auto all = std::make_unique<guarded[]>(count);
  std::vector<std::thread> threads;
  for (std::size_t own = 0; own < count; ++own) {
    threads.emplace_back([&all, own] {
      for (std::uint64_t n = 0; n < some; ++n) {
        all[own].lock_and_count();
        if (n % 16 == 0) {
          for (std::size_t i = 0; i < count; ++i)
            all[i].lock_and_count();
        }
      }
      all[own].lock.disown();
    });
  }
  for (std::thread& t : threads)
    t.join();
  constexpr std::uint64_t visits = (some + 15) / 16;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(all[i].counter, some + count * visits);
    EXPECT_FALSE(all[i].two_at_once);
  }
}

TEST(biased_lock, may_be_shared_from_the_start) {
  biased_lock lock{biased_lock::shared{}};
  long count = 0;
  const auto add = [&] {
    for (int i = 0; i < 10'000; ++i) {
      const std::lock_guard hold(lock);
      ++count;
    }
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(count, 20'000);
  EXPECT_FALSE(lock.is_owned_by_this_thread());
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
}

} // namespace
} // namespace farcall::biased_lock_test
