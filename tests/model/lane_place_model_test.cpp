// SPDX-License-Identifier: Apache-2.0

// Checks how lanes pass between workers, with the library's lane_place, in every order of the
// operations of serving workers, taking workers and senders.

#include <farcall/am/lane_place.hpp>
#include <farcall/memory/doorbell.hpp>
#include <tests/model/checked_ring.hpp>
#include <tests/model/mutants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace farcall::check {
namespace {

using ::testing::UnorderedElementsAre;

/// A lane with a value that only the serving worker accesses: any other access is reported as a
/// data race.
struct lane {
  std::uint32_t value = 0;
  std::atomic<std::uint32_t> pins{0};

  void serve() { plain_write(&value, plain_read(&value) + 1); }
};

struct server {
  am::lane_place<lane> place;
  am::lane_in_use<lane> in_use;

  /// Serves the lane once if it is here; returns the number of requests, 0 or 1.
  std::uint32_t turn() {
    lane* const l = in_use.enter(place);
    if (l == nullptr) return 0;
    l->serve();
    in_use.leave();
    return 1;
  }
};

/// A worker serves its lane while another takes it, and gives it back if `gives_back`.
scenario taking(unsigned turns, unsigned takes, bool gives_back) {
  return [=](execution& run) {
    lane l;
    server home;
    home.place.put(&l);
    std::uint32_t served = 0;
    std::uint32_t taken = 0;
    run.thread([&] {
      for (unsigned i = 0; i < turns; ++i)
        served += home.turn();
    });
    run.thread([&] {
      for (unsigned i = 0; i < takes; ++i) {
        lane* const got = home.place.take(home.in_use);
        if (got == nullptr) continue;
        got->serve();
        ++taken;
        if (gives_back) home.place.put(got);
      }
    });
    if (run.join()) run.require(l.value == served + taken, "a turn is lost");
  };
}

/// A lane is taken while its worker serves another one.
scenario taking_beside_another() {
  return [](execution& run) {
    lane l;
    lane other;
    server home;
    am::lane_place<lane> place_of_other;
    home.place.put(&l);
    place_of_other.put(&other);
    std::uint32_t served = 0;
    std::uint32_t taken = 0;
    run.thread([&] {
      served = home.turn();
      if (home.in_use.enter(place_of_other) != nullptr) {
        other.serve();
        home.in_use.leave();
      }
    });
    run.thread([&] {
      if (lane* const got = home.place.take(home.in_use)) {
        got->serve();
        taken = 1;
      }
    });
    if (run.join()) run.require(l.value == served + taken, "a turn is lost");
  };
}

/// A lane that is not being served can be taken, and is served again after it was given back.
scenario one_after_the_other() {
  return [](execution& run) {
    lane l;
    server home;
    home.place.put(&l);
    run.as(1, [&] { run.require(home.turn() == 1, "its own lane is not served"); });
    run.as(2, [&] {
      run.require(home.place.take(home.in_use) == &l, "a lane that nobody is in is not had");
      run.require(home.place.take(home.in_use) == nullptr, "a lane is had twice");
    });
    run.as(1, [&] { run.require(home.turn() == 0, "what was taken is served"); });
    run.as(2, [&] { home.place.put(&l); });
    run.as(1, [&] {
      run.require(home.turn() == 1, "what was given back is not served");
      run.require(home.in_use.enter(home.place) == &l, "it is not entered");
    });
    run.as(2, [&] {
      run.require(home.place.take(home.in_use) == nullptr, "a lane is had that its worker is in");
    });
    run.as(1, [&] {
      home.in_use.leave();
      run.require(home.turn() == 1, "what was not had is gone");
    });
    (void)run.join();
  };
}

/// The lane goes to a second worker, and from there to a third.
scenario taking_what_was_taken() {
  return [](execution& run) {
    lane l;
    server home;
    server second;
    std::mutex takers;
    home.place.put(&l);
    std::uint32_t served = 0;
    std::uint32_t elsewhere = 0;
    std::uint32_t last = 0;
    run.thread([&] { served = home.turn(); });
    run.thread([&] {
      takers.lock();
      if (lane* const got = home.place.take(home.in_use)) second.place.put(got);
      takers.unlock();
      elsewhere = second.turn();
    });
    run.thread([&] {
      takers.lock();
      if (lane* const got = second.place.take(second.in_use)) {
        got->serve();
        last = 1;
        home.place.put(got);
      }
      takers.unlock();
    });
    if (run.join()) run.require(l.value == served + elsewhere + last, "a turn is lost");
  };
}

/// A waiting handler leaves the lane but pins it, like worker::leave() and come_back().
scenario pinning() {
  return [](execution& run) {
    lane l;
    server home;
    std::mutex takers;
    home.place.put(&l);
    std::uint32_t served = 0;
    std::uint32_t taken = 0;
    run.thread([&] {
      if (home.in_use.enter(home.place) == nullptr) return;
      l.serve();
      l.pins.fetch_add(1, std::memory_order_relaxed);
      home.in_use.leave();
      takers.lock();
      home.in_use.come_back(&l);
      l.pins.fetch_sub(1, std::memory_order_relaxed);
      takers.unlock();
      l.serve();
      home.in_use.leave();
      served = 2;
    });
    run.thread([&] {
      takers.lock();
      if (lane* const got = home.place.take(home.in_use)) {
        if (got->pins.load(std::memory_order_relaxed) != 0) {
          home.place.put(got);
        } else {
          got->serve();
          taken = 1;
        }
      }
      takers.unlock();
    });
    if (run.join()) run.require(l.value == served + taken, "a turn is lost");
  };
}

/// The home worker sleeps without its lane while a request arrives and the lane is given back.
scenario coming_home() {
  return [](execution& run) {
    struct home_lane {
      checked_ring requests;
    } l;
    am::lane_place<home_lane> place;
    am::lane_in_use<home_lane> in_use;
    doorbell wakes;
    notify_on_commit(l.requests.out, wakes);
    constexpr std::uint32_t bytes = 16;
    run.thread([&] {
      for (bool is_done = false; !is_done;) {
        if (home_lane* const here = in_use.enter(place)) {
          is_done = here->requests.receive(run, bytes, 0);
          in_use.leave();
          if (is_done) return;
        }
        armed_doorbell watched{&wakes};
        arm({&watched, 1});
        const home_lane* const here = place.lane();
        if (here != nullptr && has_record(here->requests.in, 0)) continue;
        sleep_on({&watched, 1}, no_deadline);
      }
    });
    run.thread([&] { (void)l.requests.send(bytes, 0); });
    run.thread([&] {
      place.put(&l);
      notify_if_armed(wakes);
    });
    (void)run.join();
  };
}

struct named_scenario {
  const char* name;
  scenario run;
};

const std::vector<named_scenario>& scenarios() {
  static const std::vector<named_scenario> all{
      {"taking", taking(2, 1, false)},
      {"taking and giving back", taking(2, 2, true)},
      {"taking beside another", taking_beside_another()},
      {"one after the other", one_after_the_other()},
      {"taking what was taken", taking_what_was_taken()},
      {"pinning", pinning()},
      {"coming home", coming_home()},
  };
  return all;
}

TEST(lane_place_model, one_worker_at_a_time_serves_a_lane) {
  for (const auto& [name, run] : scenarios()) {
    const outcome o = explore(run, {}, {.preemptions = 5});
    EXPECT_TRUE(o.is_complete) << name << ": " << o.wrong;
  }
}

// The expected survivors, with the reason why each mutant is harmless.
TEST(lane_place_model, only_harmless_mutants_survive) {
  std::vector<scenario> all;
  for (const auto& [name, run] : scenarios()) {
    // doorbell_model tests the mutants of the doorbell's code.
    if (std::string_view(name) != "coming home") all.push_back(run);
  }
  EXPECT_THAT(survivors(all, {.preemptions = 3}),
              UnorderedElementsAre(
                  // Checked again after entering.
                  "enter: load relaxed, repeated",
                  // The lane only becomes free, or present, later.
                  "leave: store release, delayed", "put: store release, delayed",
                  // Takers hold a lock.
                  "take: load relaxed, repeated"));
}

} // namespace
} // namespace farcall::check
