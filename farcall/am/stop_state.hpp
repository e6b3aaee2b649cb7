// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/counted.hpp>
#include <farcall/base/node_id.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace farcall::am {

class stoppable_calls;

/// Object that is told when its call is stopped. The code that adds a listener to a stop_state owns
/// it, and must remove it from there before destroying it.
class stop_listener {
 public:
  stop_listener() = default;
  stop_listener(const stop_listener&) = delete;
  stop_listener& operator=(const stop_listener&) = delete;
  virtual void stop() noexcept = 0;

 protected:
  ~stop_listener() = default;

 private:
  friend class stop_state;
  stop_listener* before_ = nullptr;
  stop_listener* after_ = nullptr;
  bool is_listening_ = false;
};

/// Stop state of a stoppable call, on the node that runs the call. It exists until the call has
/// ended and the stop tokens of the call's handler are destroyed, because the table of stoppable
/// calls and these tokens hold references. Any thread may use it.
class stop_state : public counted {
 public:
  /// Makes a stop state for code that calls request_stop() itself, without a call from another
  /// node.
  stop_state() noexcept;
  stop_state(counted_ptr<stoppable_calls> calls, node_id origin, std::uint64_t id) noexcept;
  ~stop_state();

  /// Allocates from memory that the calling thread has freed before, because each stoppable call
  /// needs a stop state.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  [[nodiscard]] bool stop_requested() const noexcept {
    // Acquire, paired with the release store in request_stop(), so that earlier writes of the
    // stopping thread are visible.
    return requested_.load(std::memory_order_acquire);
  }

  /// Requests the stop: calls stop() of the listeners on the calling thread, in the order in which
  /// they were added. Only the first call has an effect.
  void request_stop() noexcept;

  /// Adds a listener. Returns false, without adding it, if a stop was requested before.
  [[nodiscard]] bool add(stop_listener& l) noexcept;
  /// Removes a listener. If its stop() is running, waits until stop() has returned, unless the
  /// caller is inside that stop(). While a fiber waits, other fibers run.
  void remove(stop_listener& l) noexcept;

  /// Notes that the reply to the call is deferred. The thread that gives the reply then calls
  /// end(), in place of the handler's thread. Only the handler's thread may call defer() and
  /// is_deferred().
  void defer() noexcept { is_deferred_ = true; }
  [[nodiscard]] bool is_deferred() const noexcept { return is_deferred_; }

  /// Removes the call from the table of stoppable calls after the reply was given. A later stop of
  /// the call has no effect.
  void end() noexcept;

  [[nodiscard]] node_id origin() const noexcept { return origin_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  friend class stoppable_calls;

  class return_wait;

  void take_out(stop_listener& l) noexcept;

  const counted_ptr<stoppable_calls> calls_;
  const node_id origin_ = no_node;
  /// Number of the call, unique among the calls of the node `origin_`.
  const std::uint64_t id_ = 0;
  counted_ptr<stop_state> next_; ///< next call in a list of the table
  bool is_deferred_ = false;

  std::mutex mutex_;
  std::atomic<bool> requested_{false}; ///< written with the mutex
  std::condition_variable returned_;
  stop_listener* first_ = nullptr;
  stop_listener* last_ = nullptr;
  /// Listener whose stop() is running; null if there is none.
  const stop_listener* running_ = nullptr;
  std::thread::id runs_on_;
};

} // namespace farcall::am
