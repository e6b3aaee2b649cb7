// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

/// Protocol that passes a lane from one worker to another, at no cost to workers that keep their
/// lanes. A worker that serves a lane first publishes that it has entered the lane, and then checks
/// that the lane is still in its place. A thread that takes a lane first empties the place, then
/// makes all threads pass a barrier, and then checks whether the worker has entered the lane. At
/// least one of the two therefore notices the other. Either the worker finds the place empty and
/// leaves the lane, or the taker sees the lane in use and puts it back.
namespace farcall::am {

template <class Lane>
class lane_in_use;

/// A place in a worker's table of lanes, which holds the lane that the worker serves, or null.
template <class Lane>
class lane_place {
 public:
  /// Returns the lane. The caller must know that no other worker takes the lane at the same time.
  [[nodiscard]] Lane* lane() const noexcept {
    // Acquire, paired with the release store in put(), so that the effects of earlier workers on
    // the lane are visible.
    return lane_.load(std::memory_order_acquire);
  }

  /// Puts a lane into an empty place. With null, empties a place whose lane no worker can have
  /// entered. Only one thread at a time may call put() or take().
  void put(Lane* lane) noexcept {
    // Release, paired with the acquire loads in lane() and enter(), so that the next worker sees
    // the effects of earlier workers on the lane.
    lane_.store(lane, std::memory_order_release);
  }

  /// Empties the place and returns its lane, which the caller then owns. Returns null if the place
  /// is empty, or if the worker that owns the place has entered its lane. The caller holds a lock
  /// that excludes other callers of take().
  [[nodiscard]] Lane* take(const lane_in_use<Lane>& of_worker) noexcept;

 private:
  friend class lane_in_use<Lane>;
  std::atomic<Lane*> lane_{nullptr};
};

/// The places of a worker, which are made one after the other. Places that were not made take no
/// physical memory. Makes space for many places, because other threads use places meanwhile, so
/// that the places cannot move.
template <class Lane>
class lane_places {
 public:
  /// Makes space for `most` places. Throws std::bad_alloc.
  explicit lane_places(std::size_t most)
      : places_(std::allocator<lane_place<Lane>>().allocate(most)), most_(most) {}
  lane_places(const lane_places&) = delete;
  lane_places& operator=(const lane_places&) = delete;
  ~lane_places() { std::allocator<lane_place<Lane>>().deallocate(places_, most_); }

  [[nodiscard]] std::size_t most() const noexcept { return most_; }
  /// Makes an empty place. Each place is made once, before any use of it.
  void make(std::size_t i) noexcept { std::construct_at(places_ + i); }
  [[nodiscard]] lane_place<Lane>& operator[](std::size_t i) const noexcept { return places_[i]; }

 private:
  static_assert(std::is_trivially_destructible_v<lane_place<Lane>>);
  lane_place<Lane>* places_; ///< owned; memory for most_ places
  std::size_t most_;
};

/// The lane that a worker has currently entered. Only the worker's thread writes it.
template <class Lane>
class lane_in_use {
 public:
  /// Enters the lane at `place`, which stays there until leave(). Returns null if the place is
  /// empty.
  [[nodiscard]] Lane* enter(const lane_place<Lane>& place) noexcept {
    Lane* const lane = place.lane_.load(std::memory_order_relaxed);
    if (lane == nullptr) return nullptr;
    come_back(lane);
    // Keep the store above before the load below. A compiler barrier suffices, because the process
    // barrier in take() makes the processors keep the order, too.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire, paired with the release store in put(), so that the effects of earlier workers on
    // the lane are visible.
    if (place.lane_.load(std::memory_order_acquire) == lane) [[likely]]
      return lane;
    leave();
    return nullptr;
  }
  void leave() noexcept {
    // Release, paired with the acquire load in take(), so that the taker sees the effects of this
    // worker on the lane.
    lane_.store(nullptr, std::memory_order_release);
  }
  /// Enters a lane again after leave(). Other workers may have served the lane in between.
  void come_back(Lane* lane) noexcept {
    // Release, paired with the acquire load in take(), in addition to the release in leave(). If
    // this worker has left one lane and now enters another, the taker of the first lane may read
    // the value that is stored here. That taker must also see the effects of this worker on the
    // first lane.
    lane_.store(lane, std::memory_order_release);
  }

  /// Returns the lane that the worker has entered, or null. On other threads than the worker's, the
  /// value may be outdated at once.
  [[nodiscard]] const Lane* lane() const noexcept { return lane_.load(std::memory_order_relaxed); }

 private:
  friend class lane_place<Lane>;
  std::atomic<Lane*> lane_{nullptr};
};

template <class Lane>
Lane* lane_place<Lane>::take(const lane_in_use<Lane>& of_worker) noexcept {
  // Relaxed, because the caller's lock orders this load after the writes of the thread that put the
  // lane there.
  Lane* const lane = lane_.load(std::memory_order_relaxed);
  if (lane == nullptr) return nullptr;
  lane_.store(nullptr, std::memory_order_relaxed);
  // Acquire, paired with the release stores in leave() and come_back(). After the barrier, one of
  // two things holds: the worker finds the place empty, or the worker has entered the lane before,
  // and this load returns that lane.
  if (process_barrier() && of_worker.lane_.load(std::memory_order_acquire) != lane) return lane;
  put(lane);
  return nullptr;
}

} // namespace farcall::am
