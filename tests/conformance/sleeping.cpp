// Whoever sleeps is woken by what arrives.

#include <tests/conformance/conformance.hpp>
#include <tests/stress.hpp>

#include <thread>

namespace farcall::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t worker = 1;
constexpr std::uint32_t answers = 4;
constexpr lane_shape shape{.doorbell = answers, .worker = worker};

/// Sleeps on a doorbell of ours until `something` is there; true when it was told in time, and not
/// found by looking when the time was up.
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

/// Long enough for the other side to fall asleep, mostly. Too short is no error.
void let_the_other_side_sleep() { std::this_thread::sleep_for(3ms); }

TEST_P(transport_conformance, a_sleeping_receiver_is_woken_by_all_that_happens_to_it) {
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

TEST_P(transport_conformance, a_sleeping_caller_is_woken_by_the_answer) {
  register_for_barriers();
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open(shape);
        s.send(c, 64, 1);
        ASSERT_TRUE(sleep_until(s, answers, [&] { return static_cast<bool>(peek(c.in)); }));
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

TEST_P(transport_conformance, nobody_is_rung_who_does_not_sleep) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open(shape);
        s.step();
        // Carriers hear of every commit.
        EXPECT_TRUE(c.driver != nullptr || (c.out.armed->load() & armed_flag) == 0);
        s.link().close(c);
      },
      [](side& s) {
        endpoint c = s.accept();
        s.step();
        s.accept_end(c);
      });
}

// Back and forth, and both sleep whenever they can: a wake-up that gets lost stops it for good.
TEST_P(transport_conformance, no_wake_up_is_lost_on_a_lane) {
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
          ASSERT_TRUE(sleep_until(s, answers, [&] { return static_cast<bool>(peek(c.in)); }))
              << "answer " << n;
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
