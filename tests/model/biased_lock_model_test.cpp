// SPDX-License-Identifier: Apache-2.0

// Checks the library's biased lock in every order of the operations of its owner and other threads.

#include <farcall/base/fork.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <tests/model/mutants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

// The library's count of forks, which stays 0 here.
std::atomic<std::uint32_t> farcall::detail::forks{0};

namespace farcall::check {
namespace {

using ::testing::UnorderedElementsAre;

/// A lock, and memory that only its holder accesses: any other access is reported as a data race.
struct guarded {
  biased_lock guard;
  std::uint32_t value = 0;

  void add() {
    guard.lock();
    count();
    guard.unlock();
  }
  bool try_add() {
    if (!guard.try_lock()) return false;
    count();
    guard.unlock();
    return true;
  }
  bool add_as_owner() {
    const biased_lock::as_owner held(guard);
    if (!held) return false;
    count();
    return true;
  }
  void count() { plain_write(&value, plain_read(&value) + 1); }
};

void times(unsigned n, const std::function<void()>& f) {
  for (unsigned i = 0; i < n; ++i)
    f();
}

/// The owner takes the lock `owners` times, and another thread `others` times.
scenario owner_and_other(unsigned owners, unsigned others) {
  return [=](execution& run) {
    guarded g;
    run.as(1, [&] { g.add(); });
    run.thread([&] { times(owners, [&] { g.add(); }); });
    run.thread([&] { times(others, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 1 + owners + others, "a turn is lost");
  };
}

/// The owner takes the lock only by as_owner, which gives up rather than wait.
scenario owner_only(unsigned owners, unsigned others) {
  return [=](execution& run) {
    guarded g;
    unsigned got = 0;
    run.as(1, [&] {
      run.require(!g.add_as_owner(), "a lock without an owner is held");
      g.add();
      run.require(g.add_as_owner(), "the owner does not get a free lock");
    });
    run.thread([&] { times(owners, [&] { got += g.add_as_owner() ? 1U : 0U; }); });
    run.thread([&] { times(others, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 2 + got + others, "a turn is lost");
  };
}

/// Like owner_only(), while the other thread's next lock() makes it the owner.
scenario rebiasing_beside_owner_only() {
  return [](execution& run) {
    guarded g;
    run.as(1, [&] { g.add(); });
    run.as(2, [&] { times(15, [&] { g.add(); }); });
    unsigned got = 0;
    run.thread([&] { times(2, [&] { got += g.add_as_owner() ? 1U : 0U; }); });
    run.thread([&] { times(2, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 18 + got, "a turn is lost");
  };
}

/// Two threads take a lock that has no owner yet.
scenario adoption() {
  return [](execution& run) {
    guarded g;
    for (int i = 0; i < 2; ++i)
      run.thread([&] { times(2, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 4, "a turn is lost");
  };
}

/// The other thread uses try_lock().
scenario trying(unsigned owners, unsigned tries) {
  return [=](execution& run) {
    guarded g;
    unsigned got = 0;
    run.as(1, [&] { g.add(); });
    run.thread([&] { times(owners, [&] { g.add(); }); });
    run.thread([&] { times(tries, [&] { got += g.try_add() ? 1U : 0U; }); });
    if (run.join()) run.require(g.value == 1 + owners + got, "a turn is lost");
  };
}

/// A thread that knows the last holder waits for it by settle(), and then needs no lock.
scenario settling() {
  return [](execution& run) {
    guarded g;
    std::atomic<bool> is_inside{false};
    run.as(1, [&] { g.add(); });
    run.thread([&] {
      while (!is_inside.load(std::memory_order_acquire))
        std::this_thread::yield();
      g.guard.settle();
      g.count();
    });
    run.thread([&] {
      g.guard.lock();
      is_inside.store(true, std::memory_order_release);
      g.count();
      g.guard.unlock();
    });
    if (run.join()) run.require(g.value == 3, "a turn is lost");
  };
}

/// settle() must return even if the other thread only tried to take the lock.
scenario settling_after_a_try() {
  return [](execution& run) {
    guarded g;
    run.as(1, [&] { g.add(); });
    run.thread([&] {
      g.add();
      g.guard.settle();
    });
    run.thread([&] { (void)g.try_add(); });
    (void)run.join();
  };
}

/// Checks which thread owns a lock that threads use one after the other.
scenario one_after_the_other() {
  return [](execution& run) {
    guarded g;
    const auto is_owner = [&](std::size_t n, bool expected) {
      run.as(n, [&] {
        run.require(g.guard.is_owned_by_this_thread() == expected, "the owner is another");
      });
    };
    run.thread([&] {
      g.add();
      g.guard.disown();
    });
    if (!run.join()) return;
    is_owner(1, false);
    run.as(2, [&] { g.add(); });
    is_owner(2, true);
    run.as(3, [&] { times(15, [&] { g.add(); }); });
    is_owner(3, false);
    run.as(3, [&] { g.add(); });
    is_owner(3, true);
  };
}

/// The owner disowns the lock, and the other thread may become its owner.
scenario disowning() {
  return [](execution& run) {
    guarded g;
    run.as(1, [&] { g.add(); });
    run.thread([&] {
      g.add();
      g.guard.disown();
      g.add();
    });
    run.thread([&] { times(2, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 5, "a turn is lost");
  };
}

/// The other thread's next lock() makes it the owner, while the former owner uses the lock.
scenario rebiasing(bool tries) {
  return [tries](execution& run) {
    guarded g;
    run.as(1, [&] { g.add(); });
    run.as(2, [&] { times(15, [&] { g.add(); }); });
    unsigned got = 2;
    run.thread([&] {
      if (tries) {
        got = g.try_add() ? 1 : 0;
      } else {
        times(2, [&] { g.add(); });
      }
    });
    run.thread([&] { times(2, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 18 + got, "a turn is lost");
  };
}

/// Has threads 2 and 3 take the lock of thread 1 alternately, so often that thread 3's next lock()
/// makes it shared.
void nearly_share(execution& run, guarded& g) {
  run.as(1, [&] { g.add(); });
  for (int i = 0; i < 15; ++i) {
    run.as(2, [&] { g.add(); });
    run.as(3, [&] { g.add(); });
  }
  run.as(2, [&] { g.add(); });
}

/// The lock becomes shared while its former owner and another thread use it.
scenario sharing(unsigned owners, unsigned others, bool tries) {
  return [=](execution& run) {
    guarded g;
    nearly_share(run, g);
    unsigned got = 0;
    run.thread([&] { times(owners, [&] { g.add(); }); });
    run.thread([&] { times(others, [&] { g.add(); }); });
    run.thread([&] {
      if (tries) {
        g.add();
        got = g.try_add() ? 2 : 1;
      } else {
        times(got = 2, [&] { g.add(); });
      }
    });
    if (run.join()) run.require(g.value == 32 + owners + others + got, "a turn is lost");
  };
}

/// The former owner uses try_lock() while the lock becomes shared.
scenario sharing_while_the_owner_tries() {
  return [](execution& run) {
    guarded g;
    nearly_share(run, g);
    unsigned got = 0;
    run.thread([&] { times(2, [&] { got += g.try_add() ? 1U : 0U; }); });
    run.thread([] {});
    run.thread([&] { times(2, [&] { g.add(); }); });
    if (run.join()) run.require(g.value == 34 + got, "a turn is lost");
  };
}

/// A shared lock has no owner, and needs no barriers.
scenario shared() {
  return [](execution& run) {
    guarded g;
    nearly_share(run, g);
    run.as(3, [&] { g.add(); });
    const unsigned before = private_barriers_passed();
    for (std::size_t n = 1; n <= 4; ++n) {
      run.as(n, [&] {
        times(20, [&] { g.add(); });
        run.require(g.try_add(), "a free lock is not had");
        run.require(!g.guard.is_owned_by_this_thread(), "a shared lock has an owner");
        g.guard.disown();
        g.guard.settle();
      });
    }
    run.require(private_barriers_passed() == before, "a shared lock costs a barrier");
    run.require(g.value == 33 + 4 * 21, "a turn is lost");
  };
}

struct named_scenario {
  const char* name;
  scenario run;
};

const std::vector<named_scenario>& scenarios() {
  static const std::vector<named_scenario> all{
      {"owner and other", owner_and_other(2, 1)},
      {"owner only and other", owner_only(2, 1)},
      {"rebiasing beside owner only", rebiasing_beside_owner_only()},
      {"adoption", adoption()},
      {"trying", trying(2, 1)},
      {"settling", settling()},
      {"settling after a try", settling_after_a_try()},
      {"one after the other", one_after_the_other()},
      {"disowning", disowning()},
      {"rebiasing", rebiasing(false)},
      {"rebiasing while the former owner tries", rebiasing(true)},
      {"sharing", sharing(2, 0, false)},
      {"sharing while another takes it", sharing(1, 1, false)},
      {"sharing and trying", sharing(1, 0, true)},
      {"sharing while the former owner tries", sharing_while_the_owner_tries()},
      {"shared", shared()},
  };
  return all;
}

TEST(biased_lock_model, holders_are_alone_and_see_earlier_changes) {
  for (const auto& [name, run] : scenarios()) {
    const outcome o = explore(run, {}, {.preemptions = 5});
    EXPECT_TRUE(o.is_complete) << name << ": " << o.wrong;
  }
}

// The expected survivors, with the reason why each mutant is harmless. Another survivor would be an
// operation that the lock does not need, or that no scenario tests.
TEST(biased_lock_model, only_harmless_mutants_survive) {
  std::vector<scenario> all;
  for (const auto& [name, run] : scenarios())
    all.push_back(run);
  EXPECT_THAT(
      survivors(all, {.preemptions = 3}),
      UnorderedElementsAre(
          // Loads by the lock's holder: other threads do not change these words meanwhile.
          "consider_owner: load relaxed 1, repeated", "disown: load relaxed, repeated",
          "stop_wanting: load relaxed 2, repeated", "unlock: load relaxed, repeated",
          // A former owner may notice late that it is one: its slot says that the lock is wanted.
          "is_owned_by_this_thread: load relaxed, repeated",
          "lock_as_owner: load relaxed 1, repeated", "lock_as_owner: load relaxed 2, repeated",
          // Other threads read these words with the lock held, or only as a hint.
          "consider_owner: store relaxed 1, delayed", "consider_owner: store relaxed 2, delayed",
          "consider_owner: store relaxed 3, delayed", "disown: store relaxed, delayed",
          "go_shared: store relaxed, delayed",
          // The failed try has written nothing that other threads must see.
          "try_lock_slow: update release, weakened",
          // These scenarios do not fork.
          "fork_generation: load relaxed, omitted", "lock_slow: load relaxed, omitted",
          // The lock only becomes free later.
          "lock_as_owner: store release, delayed", "unlock: store release, delayed",
          "~as_owner: store release, delayed"));
}

} // namespace
} // namespace farcall::check
