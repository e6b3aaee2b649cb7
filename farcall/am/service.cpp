#include <farcall/am/engine.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>

#include <algorithm>
#include <string>

/// The threads that run handlers, and how lanes come to them.
namespace farcall::am {
namespace {

/// Iterations between two polls for lanes that peers have opened.
constexpr unsigned arrival_look_interval = 8;

/// How long a worker that is to stop waits for space for its replies while nothing moves.
constexpr std::chrono::milliseconds last_space_interval{100};

/// Busy iterations of a worker between two searches for closed lanes.
constexpr unsigned reclaim_interval = 4096;

/// Receive coalescing. When a caller sends one request after the other without waiting for replies,
/// a worker that is faster polls all the time the very line that the caller writes to, and each
/// request costs both sides a transfer of that line. So a worker that has seen this for a while
/// lets a few requests collect between its polls. Only for the worker of a single lane, which keeps
/// nobody else waiting.
class coalescing {
 public:
  /// After an iteration that served `requests`, with `empty_looks` polls since the one before.
  void pause_after(unsigned requests, unsigned empty_looks) noexcept {
    if (std::exchange(has_paused_, false)) {
      // Few: the caller has stopped, or waits for replies once a number of them is outstanding.
      turns_before_ = requests >= enough ? least_turns : std::min(2 * turns_before_, most_turns);
      if (requests < enough) turns_ = 0;
    }
    if (requests == 1 && empty_looks > sooner_than_a_reply) turns_ = 0;
    if (++turns_ <= turns_before_) return;
    has_paused_ = true;
    const time_point end = clock::now() + interval;
    while (clock::now() < end)
      spin_pause();
  }

 private:
  /// A caller that waits for each reply cannot have sent its next request after so few polls.
  static constexpr unsigned sooner_than_a_reply = 6;
  static constexpr std::chrono::microseconds interval{2};
  static constexpr unsigned enough = 20;
  static constexpr unsigned least_turns = 4;
  static constexpr unsigned most_turns = 8192;

  unsigned turns_ = 0; ///< in a row that found requests of a caller that did not wait
  unsigned turns_before_ = least_turns;
  bool has_paused_ = false;
};

} // namespace

bool engine::arrivals_changed() const noexcept {
  return std::any_of(listeners_.begin(), listeners_.end(), [](const auto& l) {
    return l->arrivals->load(std::memory_order_acquire) != l->seen.load(std::memory_order_relaxed);
  });
}

void engine::close_refused() noexcept {
  std::erase_if(refused_, [this](std::pair<transport*, endpoint>& r) {
    auto& [via, c] = r;
    if (c.driver != nullptr) c.driver->progress();
    // Nobody else reads what is in it, and unread it does not count as closed.
    for (record_view record = peek(c.in); record && record.bytes != 0; record = peek(c.in)) {
      release(c.in, record);
    }
    if (!has_failed(c.peer) && !via->is_closed(c)) return false;
    via->close(c);
    return true;
  });
}

void engine::accept_lanes() noexcept {
  const std::lock_guard guard(accept_mutex_);
  close_refused();
  for (const auto& l : listeners_) {
    const std::uint32_t now = l->arrivals->load(std::memory_order_acquire);
    if (now == l->seen.load(std::memory_order_relaxed)) continue;
    l->seen.store(now, std::memory_order_relaxed);
    while (std::optional<endpoint> c = l->via->accept()) {
      try {
        adopt(*l->via, *c);
      } catch (const std::exception& e) {
        log::error(std::string("a lane that a peer opened cannot be served: ") + e.what());
        refuse(c->out);
        refused_.emplace_back(l->via, *c);
      }
    }
  }
}

void engine::adopt(transport& via, const endpoint& c) {
  if (c.peer >= options_.nodes || has_failed(c.peer)) {
    via.close(c);
    return;
  }
  if (!c.own_worker) {
    // A worker that does not exist is a peer's mistake; the lane is served all the same.
    worker& w = *workers_[c.worker % options_.workers];
    if (!w.add(via, c)) throw error("worker " + std::to_string(w.index()) + " has too many lanes");
    notify_if_armed(w.wakes());
    return;
  }
  std::erase_if(lane_workers_, [](lane_worker& old) {
    if (!old.done.load(std::memory_order_acquire)) return false;
    old.thread.join();
    return true;
  });
  lane_worker& made = lane_workers_.emplace_back();
  try {
    // Any doorbell will do for a peer that names an impossible one.
    const std::uint32_t doorbell_index =
        std::clamp(c.worker, first_lane_doorbell(), acceptor_doorbell() - 1);
    made.serving =
        std::make_unique<worker>(*this, doorbell_index, options_.doorbells[doorbell_index], false);
    if (!made.serving->add(via, c)) throw error("a worker of its own has too many lanes");
    made.thread = std::thread([this, &made] {
      leave_signals_to_other_threads();
      run_worker(*made.serving, true);
      made.done.store(true, std::memory_order_release);
    });
  } catch (...) {
    lane_workers_.pop_back();
    throw;
  }
}

void engine::start_workers(std::uint32_t first) {
  std::vector<transport*> transports;
  for (const auto& l : listeners_)
    transports.push_back(l->via);
  progress_.emplace(transports);
  for (std::uint32_t i = first; i < options_.workers; ++i) {
    threads_.emplace_back([this, i] {
      leave_signals_to_other_threads();
      serve(i);
    });
  }
  threads_.emplace_back([this] {
    leave_signals_to_other_threads();
    accept_until_stopped();
  });
}

void engine::accept_until_stopped() {
  armed_doorbell wakes{&options_.doorbells[acceptor_doorbell()]};
  for (;;) {
    arm({&wakes, 1});
    if (stopping_.load(std::memory_order_acquire)) return;
    if (arrivals_changed()) accept_lanes();
    sleep_on({&wakes, 1}, no_deadline);
  }
}

void engine::join_threads() noexcept {
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& t : threads)
    t.join();
  for (lane_worker& w : lane_workers_) {
    if (w.thread.joinable()) w.thread.join();
  }
  progress_.reset();
}

void engine::serve(std::uint32_t index) { run_worker(*workers_[index], false); }

void engine::run_worker(worker& w, bool until_empty) {
  current_worker_ = &w;
  // Where waiting threads serve too, the worker's own thread only steps in when they are elsewhere.
  const bool is_service = options_.waiters_serve && !until_empty;
  spin_wait idle(is_service ? wait_policy{.spin = {}, .yield_after = {}} : options_.waiting,
                 oversubscribed_);
  armed_doorbell wakes{&w.wakes()};
  const auto reclaim = [&] {
    const std::lock_guard guard(accept_mutex_);
    return w.reclaim();
  };
  time_point gives_up{};
  coalescing requests;
  unsigned empty_looks = 0;
  for (unsigned busy_turns = 0;;) {
    if (const unsigned served = w.turn(false); served != 0) {
      if (until_empty) requests.pause_after(served, std::exchange(empty_looks, 0));
      idle.renew();
      gives_up = {};
      // Closed lanes must be given back even if this worker is never idle.
      if (++busy_turns % reclaim_interval == 0) reclaim();
      continue;
    }
    ++empty_looks;
    if (stopping_.load(std::memory_order_acquire)) {
      // A lane may have been opened, and another thread be about to hand it to us.
      if (!until_empty) accept_lanes();
      if (!w.has_work()) {
        if (!w.is_blocked()) break;
        // Behind replies that find no space there may be requests.
        if (gives_up == time_point{}) gives_up = clock::now() + last_space_interval;
        if (clock::now() >= gives_up) break;
      }
    }
    if (!until_empty && idle.turn() % arrival_look_interval == arrival_look_interval - 1 &&
        arrivals_changed()) {
      accept_lanes();
    }
    if (!idle.is_over()) continue;
    idle.renew();
    if (is_service && mask_.nap()) continue;

    arm({&wakes, 1});
    w.arm();
    if (reclaim() == 0 && until_empty) break;
    const bool has_new_lanes = !until_empty && arrivals_changed();
    const bool is_blocked = w.is_blocked();
    if (!w.has_work() && !has_new_lanes &&
        (is_blocked || !stopping_.load(std::memory_order_acquire))) {
      sleep_on({&wakes, 1}, is_blocked ? clock::now() + space_interval : no_deadline);
    }
  }
  current_worker_ = nullptr;
}

void engine::stop() noexcept {
  // The doorbells may be gone when the last thread lets go of an engine that was shut down.
  if (stopping_.exchange(true, std::memory_order_acq_rel)) return;
  // Notifies all, asleep or not: a thread may be between its last poll and its sleep.
  for (const auto& w : workers_)
    notify(w->wakes());
  notify_lane_workers();
}

void engine::notify_lane_workers() noexcept {
  for (std::uint32_t i = first_lane_doorbell(); i <= acceptor_doorbell(); ++i)
    notify(options_.doorbells[i]);
}

} // namespace farcall::am
