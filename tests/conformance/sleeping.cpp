// SPDX-License-Identifier: Apache-2.0

// Tests that records, lanes and closes wake sleeping threads.

#include <tests/conformance/conformance.hpp>
#include <tests/stress.hpp>

#include <thread>

namespace farcall::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t worker = 1;
constexpr std::uint32_t reply_doorbell = 4;
constexpr lane_shape shape{.doorbell = reply_doorbell, .worker = worker};

/// Sleeps on a doorbell until `something` is true. Returns false if the time limit woke the thread,
/// even if `something` has become true by then.
template <class Condition>
bool sleep_until(side& s, std::uint32_t doorbell_index, Condition something) {
  armed_doorbell watched{&s.own_doorbell(doorbell_index)};
  const time_point deadline = clock::now() + test::wait_limit;
  for (;;) {
    arm({&watched, 1});
    s.link().arm();
    if (something()) return true;
    if (clock::now() >= deadline) return false;
    sleep_on({&watched, 1}, deadline);
    if (clock::now() >= deadline) return false;
  }
}

/// Gives the other side time to fall asleep. If that takes longer, the test still passes.
void let_the_other_side_sleep() { std::this_thread::sleep_for(3ms); }

TEST_P(transport_conformance, lanes_records_and_closes_wake_a_sleeping_receiver) {
  register_for_barriers();
  make_pair();
  run(
      [](side& s) {
        s.step();
        let_the_other_side_sleep();
        endpoint c = s.open(shape);
        s.step();
        let_the_other_side_sleep();
        s.send(c, 64, 1);
        s.step();
        let_the_other_side_sleep();
        s.link().close(c);
      },
      [](side& s) {
        register_for_barriers();
        std::optional<endpoint> c;
        s.step();
        ASSERT_TRUE(sleep_until(s, worker, [&] { return (c = s.link().accept()).has_value(); }));
        s.step();
        ASSERT_TRUE(sleep_until(s, worker, [&] { return static_cast<bool>(peek(c->in)); }));
        s.receive(*c, 64, 1);
        s.step();
        ASSERT_TRUE(sleep_until(s, worker, [&] { return s.link().is_closed(*c); }));
        s.link().close(*c);
      });
}

TEST_P(transport_conformance, a_reply_wakes_a_sleeping_caller) {
  register_for_barriers();
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open(shape);
        s.send(c, 64, 1);
        ASSERT_TRUE(sleep_until(s, reply_doorbell, [&] { return static_cast<bool>(peek(c.in)); }));
        s.receive(c, 64, 2);
        s.link().close(c);
      },
      [](side& s) {
        endpoint c = s.accept();
        s.receive(c, 64, 1);
        let_the_other_side_sleep();
        s.send(c, 64, 2);
        s.accept_end(c);
      });
}

TEST_P(transport_conformance, doorbells_stay_unarmed_without_a_sleeper) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open(shape);
        s.step();
        // Lane drivers are notified of every commit, so this holds for shared rings only.
        EXPECT_TRUE(c.driver != nullptr || (c.out.armed->load() & armed_flag) == 0);
        s.link().close(c);
      },
      [](side& s) {
        endpoint c = s.accept();
        s.step();
        s.accept_end(c);
      });
}

// Ping-pong in which both sides sleep whenever they can: a lost wake-up would stop it.
TEST_P(transport_conformance, every_record_wakes_its_sleeping_receiver) {
  const std::uint64_t rounds =
      has_asymmetric_barrier()
          ? test::stress_rounds(GetParam().wake_ups, times(GetParam().wake_ups))
          : 1'000;
  register_for_barriers();
  make_pair();
  const auto hesitate = [](std::uint64_t n) {
    for (std::uint64_t spins = test::scrambled(n) % 300; spins > 0; --spins)
      spin_pause();
  };
  run(
      [&](side& s) {
        endpoint c = s.open(shape);
        for (std::uint64_t n = 0; n < rounds; ++n) {
          s.send(c, 64, n);
          hesitate(n);
          ASSERT_TRUE(sleep_until(s, reply_doorbell, [&] { return static_cast<bool>(peek(c.in)); }))
              << "reply " << n;
          s.receive(c, 64, n);
        }
        s.link().close(c);
      },
      [&](side& s) {
        register_for_barriers();
        endpoint c = s.accept();
        for (std::uint64_t n = 0; n < rounds; ++n) {
          hesitate(~n);
          ASSERT_TRUE(sleep_until(s, worker, [&] { return static_cast<bool>(peek(c.in)); }))
              << "request " << n;
          s.receive(c, 64, n);
          s.send(c, 64, n);
        }
        s.accept_end(c);
      });
}

} // namespace
} // namespace farcall::conformance
