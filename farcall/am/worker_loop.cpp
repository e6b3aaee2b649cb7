// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/wait_conditions.hpp>
#include <farcall/am/worker_loop.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::am {
namespace {

/// Number of iterations between two polls for lanes that peers have opened.
constexpr unsigned arrival_poll_interval = 8;

/// Time for which a stopping worker waits for space for its replies while no reply can be sent.
constexpr std::chrono::milliseconds last_space_interval{100};

/// Number of iterations with requests after which a worker that is never idle searches for closed
/// lanes, and for waiting requests in other workers' lanes.
constexpr unsigned reclaim_interval = 4096;

/// Check that a worker makes before it sleeps. The check first reclaims the worker's closed lanes.
/// It then keeps a single-lane worker that has no lane left awake, so that the worker can end. It
/// also keeps a worker awake that has nothing left to do while the engine stops.
class closing_wait final : public wait_condition {
 public:
  closing_wait(worker& w, const fiber_scheduler& fibers, bool is_of_lane) noexcept
      : wait_condition(no_deadline), worker_(w), fibers_(fibers), is_of_lane_(is_of_lane) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override {
    const bool is_empty = worker_.owner().acceptor().reclaim(worker_) == 0;
    if (fibers_.has_suspended()) return false;
    if (is_of_lane_ && is_empty) return true;
    const worker_pool& pool = worker_.owner().workers();
    return pool.is_stopping() && !worker_.is_blocked() && !pool.is_owed_replies(worker_) &&
           !worker_.lends();
  }

 private:
  worker& worker_;
  const fiber_scheduler& fibers_;
  bool is_of_lane_;
};

} // namespace

void coalescing::pause_after(unsigned requests, unsigned empty_polls) noexcept {
  if (std::exchange(has_paused_, false)) {
    // If few requests came during the pause, the caller has stopped sending, or waits for replies
    // because it has its maximum number of calls in flight. Wait longer before the next pause.
    turns_before_ = requests >= enough ? min_turns : std::min(2 * turns_before_, max_turns);
    if (requests < enough) turns_ = 0;
  }
  if (requests == 1 && empty_polls > sooner_than_a_reply) turns_ = 0;
  if (++turns_ <= turns_before_) return;
  has_paused_ = true;
  const time_point end = clock::now() + interval;
  while (clock::now() < end)
    spin_pause();
}

worker_loop::worker_loop(engine& e, worker& w, bool is_of_lane) noexcept
    : engine_(e), lanes_(e.lanes()), acceptor_(e.acceptor()), pool_(e.workers()), worker_(w),
      is_of_lane_(is_of_lane) {}

wait_condition::state worker_loop::poll(spin_wait& idle) {
  const unsigned served = runs_on_fibers_ ? turn_on_fiber() : worker_.turn(false);
  // If this process is a forked child, end it. The child has returned from a handler that forked,
  // into its copy of this loop.
  if (engine_.is_forked()) [[unlikely]]
    ::_exit(0);
  if (served != 0) {
    note_served(served);
    return wait_condition::state::advanced;
  }
  ++idle_polls_;
  ++empty_polls_;
  worker_.note_idle();
  acceptor_.poll_drivers();
  // Run the continuations of calls that handlers have made, which must run even if no thread waits
  // for them.
  if ((lanes_.pump_own() || fibers_.has_suspended() || has_queued_continuations()) &&
      fibers_.go_on()) {
    return wait_condition::state::advanced;
  }
  if (pool_.is_stopping()) {
    const wait_condition::state ending = poll_at_end();
    if (ending != wait_condition::state::pending) return ending;
  }
  if (pool_.progresses(worker_) && is_turn(rare_poll_interval)) {
    engine_.waiter().pump(true);
    if (fibers_.go_on()) idle.renew();
  }
  if (!is_of_lane_ && is_turn(arrival_poll_interval) && acceptor_.has_arrivals()) {
    acceptor_.accept();
  }
  if (is_turn(worker_group::take_over_interval) && pool_.sharing().take_over(worker_)) {
    return wait_condition::state::advanced;
  }
  // Reclaim a closed lane at once, because other threads may wait for it.
  return is_of_lane_ && is_turn(arrival_poll_interval) && !fibers_.has_suspended() &&
                 worker_.is_closed() && acceptor_.reclaim(worker_) == 0
             ? wait_condition::state::over
             : wait_condition::state::pending;
}

/// Serves requests like worker::turn(false). Returns a number that is not 0 if a handler waits.
unsigned worker_loop::turn_on_fiber() noexcept {
  worker_.progress();
  if (!worker_.has_work() && !worker_.is_blocked()) return 0;
  served_on_fiber_ = 1;
  const auto serve = [](void* serving) noexcept {
    auto& loop = *static_cast<worker_loop*>(serving);
    loop.served_on_fiber_ = loop.worker_.turn(false);
  };
  if (fibers_.run(serve, this)) return served_on_fiber_;
  return worker_.refuse_one() ? 1 : 0;
}

bool worker_loop::has_work() noexcept { return pool_.sharing().take_over(worker_); }

bool worker_loop::sleep_unless(wait_condition* also) {
  acceptor_.give_back(worker_, false);
  requests_wait requests(engine_, worker_, !is_of_lane_);
  own_replies_wait replies(engine_);
  closing_wait closing(worker_, fibers_, is_of_lane_);
  if (also == nullptr)
    return engine_.waiter().sleep_as(worker_, {&requests, &replies, &closing}, fibers_);
  return engine_.waiter().sleep_as(worker_, {&requests, &replies, &closing, also}, fibers_);
}

void worker_loop::note_served(unsigned served) noexcept {
  if (is_of_lane_) requests_.pause_after(served, std::exchange(empty_polls_, 0));
  gives_up_ = {};
  // Reclaim closed lanes even if this worker is never idle, and serve waiting lanes of other
  // workers.
  if (++busy_turns_ % reclaim_interval == 0) {
    acceptor_.reclaim(worker_);
    pool_.sharing().take_over(worker_);
  }
  if (lanes_.pump_own() || fibers_.has_suspended()) fibers_.go_on();
}

wait_condition::state worker_loop::poll_at_end() noexcept {
  // Accept lanes now, because another thread may be about to hand over a new lane.
  if (!is_of_lane_) acceptor_.accept();
  if (pool_.sharing().take_over(worker_, true)) return wait_condition::state::advanced;
  acceptor_.give_back(worker_, true);
  if (worker_.has_work() || fibers_.has_suspended() || pool_.is_owed_replies(worker_) ||
      worker_.lends()) {
    return wait_condition::state::pending;
  }
  if (!worker_.is_blocked()) return wait_condition::state::over;
  // Wait for space for a short time before ending, because further requests may be behind the
  // replies that find no space.
  if (gives_up_ == time_point{}) gives_up_ = clock::now() + last_space_interval;
  return clock::now() >= gives_up_ ? wait_condition::state::over : wait_condition::state::pending;
}

} // namespace farcall::am
