// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/am/fiber_scheduler.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

/// Conditions for which threads wait, as implementations of wait_condition.
namespace farcall::am {

/// Number of iterations between two polls of other threads' lanes.
inline constexpr unsigned rare_poll_interval = 64;

/// Longest sleep of a thread that waits for space in a full lane, because the peer does not notify
/// when space is free. Applies to callers, and to workers with replies.
inline constexpr std::chrono::microseconds space_interval{100};

/// Receives the replies in the lane `l` and queues their continuations.
inline void take_replies(requester& l) noexcept {
  l.guard().lock();
  l.pump();
  continuation_list due = l.take_due();
  l.guard().unlock();
  queue_continuations(due);
}

/// Waits for replies to calls of all threads. Other conditions contain it.
class any_reply {
 public:
  explicit any_reply(engine& e) noexcept : engine_(e) {}
  /// See wait_condition::add_doorbells().
  void add_doorbells(std::vector<doorbell*>& to) {
    to.push_back(&engine_.waiter().local());
    sets_seen_ = engine_.lanes().add_doorbells(to);
  }
  /// See wait_condition::poll_again().
  [[nodiscard]] bool poll_again() noexcept {
    engine_.lanes().arm();
    return engine_.lanes().sets_made() != sets_seen_ || engine_.lanes().has_replies();
  }

 private:
  engine& engine_;
  std::uint32_t sets_seen_ = 0;
};

/// Waits for the reply to one call.
class reply_wait final : public wait_condition {
 public:
  reply_wait(completion& c, requester& source, time_point deadline) noexcept
      : wait_condition(deadline), completion_(c), source_(source) {}

  state poll() noexcept override {
    if (!completion_.ready()) take_replies(source_);
    return completion_.ready() ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { to.push_back(&source_.wakes()); }
  bool poll_again() noexcept override {
    source_.arm();
    // Check for replies first and then whether the call has ended, because another thread may take
    // the reply in between.
    return source_.has_reply() || completion_.ready();
  }

 private:
  completion& completion_;
  requester& source_;
};

/// Waits for a local event, which replies to calls of any thread may complete.
class event_wait final : public wait_condition {
 public:
  /// `help_until` limits the work for the event that the waiting thread does itself.
  event_wait(engine& e, local_completion& c, time_point deadline, time_point help_until) noexcept
      : wait_condition(deadline), engine_(e), event_(c), help_until_(help_until), replies_(e) {}

  state poll() noexcept override {
    if (event_.ready()) return state::over;
    // If the event has done a part of its work here, poll again at once, because no doorbell
    // announces that the next part can be done.
    if (event_.help(help_until_)) return event_.ready() ? state::over : state::advanced;
    engine_.waiter().pump(++turn_ % rare_poll_interval == 0);
    continuation_list others = engine_.waiter().completions().give_due();
    queue_continuations(others);
    return event_.ready() ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override {
    replies_.add_doorbells(to);
    if (event_.owner() == nullptr) to.push_back(&local_completion::doorbell_of_no_client());
  }
  bool poll_again() noexcept override {
    return replies_.poll_again() || engine_.waiter().completions().has_due() || event_.ready();
  }

 private:
  engine& engine_;
  local_completion& event_;
  time_point help_until_;
  unsigned turn_ = 0;
  any_reply replies_;
};

/// Waits until the function `holds`, which the caller has given, returns true. If `is_notified` is
/// true, the thread may sleep, because each change of the result happens on this thread, or is
/// followed by waiter::notify(). Otherwise the thread wakes up after each space_interval and calls
/// `holds`.
class state_wait final : public wait_condition {
 public:
  state_wait(engine& e, bool (*holds)(void*) noexcept, void* argument, bool is_notified,
             time_point deadline) noexcept
      : wait_condition(deadline), engine_(e), holds_(holds), argument_(argument),
        is_notified_(is_notified), replies_(e) {}

  state poll() noexcept override {
    if (holds_(argument_)) return state::over;
    engine_.waiter().pump(++turn_ % rare_poll_interval == 0);
    continuation_list others = engine_.waiter().completions().give_due();
    queue_continuations(others);
    return state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { replies_.add_doorbells(to); }
  bool poll_again() noexcept override {
    return replies_.poll_again() || engine_.waiter().completions().has_due() || holds_(argument_);
  }
  [[nodiscard]] time_point next_poll() const noexcept override {
    return is_notified_ ? deadline() : std::min(deadline(), clock::now() + space_interval);
  }

 private:
  engine& engine_;
  bool (*holds_)(void*) noexcept;
  void* argument_;
  bool is_notified_;
  unsigned turn_ = 0;
  any_reply replies_;
};

/// Waits for space in a lane. The peer does not notify when there is space, so the thread polls.
/// Once the wait is over, the thread holds the lane's guard.
class space_wait final : public wait_condition {
 public:
  space_wait(requester& l, std::uint32_t bytes, time_point deadline) noexcept
      : wait_condition(deadline), lane_(l), bytes_(bytes) {}

  state poll() noexcept override {
    lane_.guard().lock();
    lane_.pump();
    if (continuation_list due = lane_.take_due(); !due.is_empty()) {
      // Release the guard, because continuations may make calls in this very lane.
      lane_.guard().unlock();
      queue_continuations(due);
      return state::advanced;
    }
    if (!lane_.failure()) {
      space_ = lane_.try_reserve_request(bytes_);
      if (space_ == nullptr) {
        lane_.guard().unlock();
        return state::pending;
      }
    }
    is_over_ = true;
    return state::over;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { to.push_back(&lane_.wakes()); }
  bool poll_again() noexcept override {
    lane_.arm();
    return lane_.has_reply();
  }
  [[nodiscard]] time_point next_poll() const noexcept override {
    return std::min(deadline(), clock::now() + space_interval);
  }

  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] std::byte* space() const noexcept { return space_; }

 private:
  requester& lane_;
  std::uint32_t bytes_;
  std::byte* space_ = nullptr;
  bool is_over_ = false;
};

/// Waits until the peer has taken a closed lane back. The thread polls, because the peer does not
/// notify. The times between its polls grow with the wait, because each poll looks at all lanes of
/// the peer: thousands of threads that polled all the time would leave the peer no processor.
class lane_wait final : public wait_condition {
 public:
  lane_wait(engine& e, node_id node, const lane_shape& shape, time_point deadline) noexcept
      : wait_condition(deadline), engine_(e), node_(node), shape_(shape) {}

  state poll() noexcept override {
    const time_point now = clock::now();
    if (now < next_try_) return state::pending;
    next_try_ = now + interval_;
    interval_ = std::min(2 * interval_, max_interval);
    continuation_list due = engine_.lanes().reap();
    if (!due.is_empty()) {
      queue_continuations(due);
      return state::advanced;
    }
    try {
      opened_ = engine_.lanes().try_open(node_, shape_);
    } catch (...) {
      why_not_ = std::current_exception();
    }
    return opened_ || why_not_ ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override {
    to.push_back(&engine_.waiter().local());
  }
  bool poll_again() noexcept override { return false; }
  [[nodiscard]] time_point next_poll() const noexcept override {
    return std::min(deadline(), next_try_);
  }

  /// Returns the opened lane, or throws the error with which opening it has failed.
  [[nodiscard]] endpoint opened() const {
    if (why_not_) std::rethrow_exception(why_not_);
    if (opened_) return *opened_;
    throw timeout("no lane to " + node_text(node_) +
                      " was free until the deadline: closed lanes are not taken back yet",
                  node_);
  }

 private:
  static constexpr clock::duration max_interval = std::chrono::milliseconds(20);

  engine& engine_;
  node_id node_;
  lane_shape shape_;
  time_point next_try_{};
  clock::duration interval_ = std::chrono::microseconds(1);
  std::optional<endpoint> opened_;
  std::exception_ptr why_not_;
};

/// Receives replies to other calls of a thread that waits for something else. The continuation of
/// such a reply may cause the awaited event, perhaps through other nodes.
class own_replies_wait final : public wait_condition {
 public:
  explicit own_replies_wait(engine& e) noexcept : wait_condition(no_deadline), engine_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override { engine_.lanes().add_own_doorbells(to); }
  bool poll_again() noexcept override {
    engine_.acceptor().arm_drivers();
    return engine_.lanes().has_own_replies(true);
  }

 private:
  engine& engine_;
};

/// Waits for requests, on a worker that is idle or whose handler waits. Also waits for the replies
/// that this worker receives for other threads.
class requests_wait final : public wait_condition {
 public:
  /// Makes the condition for worker `w`. If `accepts` is true, the thread also accepts lanes.
  requests_wait(engine& e, worker& w, bool accepts) noexcept
      : wait_condition(no_deadline), worker_(w), accepts_(accepts),
        progresses_(e.workers().progresses(w)), replies_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override {
    worker_.add_doorbells(to);
    if (progresses_) replies_.add_doorbells(to);
  }
  bool poll_again() noexcept override {
    worker_.owner().acceptor().arm_drivers();
    worker_.arm();
    if (progresses_ && replies_.poll_again()) return true;
    return worker_.has_work() || (accepts_ && worker_.owner().acceptor().has_arrivals());
  }
  [[nodiscard]] time_point next_poll() const noexcept override {
    // While replies find no space in their rings, wake up periodically to send them. The node for
    // which a handler here waits may itself be waiting for these replies.
    return worker_.is_blocked() ? clock::now() + space_interval : no_deadline;
  }

 private:
  worker& worker_;
  bool accepts_;
  bool progresses_;
  any_reply replies_;
};

} // namespace farcall::am
