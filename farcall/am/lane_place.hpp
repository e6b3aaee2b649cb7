#pragma once

#include <farcall/memory/doorbell.hpp>

#include <atomic>

/// How a lane passes from the worker that serves it to another one, at no cost to those that stay:
/// the worker says which lane it is in and looks whether that is still its own; who takes a lane
/// makes its place empty, has all threads pass a barrier, and looks whether the worker is in it.
namespace farcall::am {

template <class Lane>
class lane_in_use;

/// A place of a worker's: the lane that it serves there, null where there is none.
template <class Lane>
class lane_place {
 public:
  /// For who knows that the lane stays.
  [[nodiscard]] Lane* lane() const noexcept {
    // Acquire; partner: the release store in put().
    return lane_.load(std::memory_order_acquire);
  }

  /// Fills an empty place, or empties one whose lane nobody can be in. One thread at a time, also
  /// with take().
  void put(Lane* lane) noexcept {
    // Release; partner: the acquire loads in lane() and enter(). What those who had the lane before
    // have done to it is seen by who serves it now.
    lane_.store(lane, std::memory_order_release);
  }

  /// Empties the place and returns its lane, unless the worker whose place it is is in it; then
  /// null. The caller has a lock against others that take, and then the lane.
  [[nodiscard]] Lane* take(const lane_in_use<Lane>& of_worker) noexcept;

 private:
  friend class lane_in_use<Lane>;
  std::atomic<Lane*> lane_{nullptr};
};

/// The lane that a worker is in. Written by the worker's thread.
template <class Lane>
class lane_in_use {
 public:
  /// The lane at `place`, which nobody takes until leave(). Null when there is none.
  [[nodiscard]] Lane* enter(const lane_place<Lane>& place) noexcept {
    Lane* const lane = place.lane_.load(std::memory_order_relaxed);
    if (lane == nullptr) return nullptr;
    come_back(lane);
    // Compiler order only; the barrier in take() supplies the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire; partner: the release store in put().
    if (place.lane_.load(std::memory_order_acquire) == lane) [[likely]]
      return lane;
    leave();
    return nullptr;
  }
  void leave() noexcept {
    // Release; partner: the acquire load in take().
    lane_.store(nullptr, std::memory_order_release);
  }
  /// After leave(), where others may have served the lane meanwhile.
  void come_back(Lane* lane) noexcept {
    // Release; partner: the acquire load in take(), which may find this one instead of what leave()
    // has stored before for another lane.
    lane_.store(lane, std::memory_order_release);
  }

  /// May be another at once, but for the worker's own thread.
  [[nodiscard]] const Lane* lane() const noexcept { return lane_.load(std::memory_order_relaxed); }

 private:
  friend class lane_place<Lane>;
  std::atomic<Lane*> lane_{nullptr};
};

template <class Lane>
Lane* lane_place<Lane>::take(const lane_in_use<Lane>& of_worker) noexcept {
  // Relaxed: what those who put it there have done is known by the caller's lock.
  Lane* const lane = lane_.load(std::memory_order_relaxed);
  if (lane == nullptr) return nullptr;
  lane_.store(nullptr, std::memory_order_relaxed);
  // From here on the worker finds the place empty, or has said before that it is in the lane.
  // Acquire; partner: the release stores in leave() and come_back().
  if (process_barrier() && of_worker.lane_.load(std::memory_order_acquire) != lane) return lane;
  put(lane);
  return nullptr;
}

} // namespace farcall::am
