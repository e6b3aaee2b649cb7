// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/counted.hpp>

#include <cstddef>
#include <vector>

namespace farcall {

class timer_queue;

/// A function that an event loop runs at a point in time, unless the timer is cancelled before.
class timer : public counted {
 public:
  timer() noexcept = default;
  virtual ~timer() = default;

 private:
  friend class event_loop;
  friend class timer_queue;

  /// Called on the loop's thread when the timer expires. The loop's lock is not held at this time.
  /// Must not block.
  virtual void expire() noexcept = 0;

  time_point when_{};
  const timer_queue* queue_ = nullptr; ///< queue that holds the timer
  std::size_t index_ = 0;              ///< index of the timer in the heap of its queue
};

/// Timers sorted by time, in a binary heap. The heap knows the index of each timer, so that
/// cancelling a timer is as cheap as adding one. The owner provides the lock.
class timer_queue {
 public:
  /// Reserves space for one more timer, so that add() cannot fail. Throws std::bad_alloc.
  void reserve();
  /// Gives back the space for one timer that reserve() has reserved. The timer must not be in the
  /// queue.
  void unreserve() noexcept { --reserved_; }

  /// Adds `t`, and holds it until it is extracted. `t` must be in no queue and have space reserved.
  void add(timer& t, time_point when) noexcept;
  /// Removes and returns `t`; returns null if `t` is not in the queue.
  [[nodiscard]] counted_ptr<timer> extract(timer& t) noexcept;
  /// Removes and returns the earliest timer if its time is not after `now`; otherwise returns null.
  [[nodiscard]] counted_ptr<timer> extract_due(time_point now) noexcept;

  /// Returns the time of the earliest timer; no_deadline if the queue is empty.
  [[nodiscard]] time_point next() const noexcept {
    return heap_.empty() ? no_deadline : heap_.front()->when_;
  }

 private:
  void put(counted_ptr<timer> t, std::size_t index) noexcept;
  void swap(std::size_t a, std::size_t b) noexcept;
  void rise(std::size_t index) noexcept;
  void sink(std::size_t index) noexcept;
  [[nodiscard]] counted_ptr<timer> extract_at(std::size_t index) noexcept;

  std::size_t reserved_ = 0;
  std::vector<counted_ptr<timer>> heap_;
};

} // namespace farcall
