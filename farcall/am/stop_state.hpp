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

/// What is to be told of a stop. Owned by whoever adds it to a stop_state, and not destroyed before
/// it is removed there.
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

/// What a call that its caller can stop knows of that, on the node that runs it. Held by the table
/// of such calls until it has ended, and by what its handler has made of it. Any thread may use it.
class stop_state : public counted {
 public:
  /// Of no call of another node: for whoever requests the stop himself.
  stop_state() noexcept;
  stop_state(counted_ptr<stoppable_calls> calls, node_id origin, std::uint64_t id) noexcept;
  ~stop_state();

  /// From what the calling thread has freed: each stoppable call has one.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  [[nodiscard]] bool stop_requested() const noexcept {
    // Acquire; partner: the release store in request_stop().
    return requested_.load(std::memory_order_acquire);
  }

  /// Tells those that listen, on the calling thread, in the order in which they were added. Only
  /// the first time.
  void request_stop() noexcept;

  /// False, and nothing is added, when a stop was requested before.
  [[nodiscard]] bool add(stop_listener& l) noexcept;
  /// It is told no more. Waits until its stop() has returned, unless that is what calls this; on a
  /// fiber, others of the thread run meanwhile.
  void remove(stop_listener& l) noexcept;

  /// The reply will be given after the handler has returned: whoever gives it calls end(). For the
  /// thread that runs the handler, as is_deferred().
  void defer() noexcept { is_deferred_ = true; }
  [[nodiscard]] bool is_deferred() const noexcept { return is_deferred_; }

  /// The call has replied: a stop of it does nothing from now on.
  void end() noexcept;

  [[nodiscard]] node_id origin() const noexcept { return origin_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  friend class stoppable_calls;

  class return_wait;

  void take_out(stop_listener& l) noexcept;

  const counted_ptr<stoppable_calls> calls_;
  const node_id origin_ = no_node;
  const std::uint64_t id_ = 0;   ///< among those of its origin
  counted_ptr<stop_state> next_; ///< in the table
  bool is_deferred_ = false;

  std::mutex mutex_;
  std::atomic<bool> requested_{false}; ///< written with the mutex
  std::condition_variable returned_;
  stop_listener* first_ = nullptr;
  stop_listener* last_ = nullptr;
  const stop_listener* running_ = nullptr; ///< its stop() has begun and not returned
  std::thread::id runs_on_;
};

} // namespace farcall::am
