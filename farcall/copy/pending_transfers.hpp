// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::detail {

/// List of copies in progress for which other operations have to wait, because the copies still
/// read or change memory of nodes. Any thread may use the list.
class pending_transfers {
 public:
  /// Memory that a copy reads or changes.
  struct place {
    node_id peer;
    am::requester* lane; ///< lane whose ordered calls wait for the copy; may be null
    std::uint64_t begin; ///< address in the peer's memory
    std::uint64_t end;
  };

  /// Adds a copy, and sets has_transfers of its lane. Throws std::bad_alloc.
  void add(const place& where, am::local_completion& transfer);

  /// Waits until all added copies have ended for whose places `concerns(place)` is true. Returns
  /// false if `deadline` passes before.
  template <class F>
  [[nodiscard]] bool settle(const F& concerns, time_point deadline) {
    // Acquire, paired with the release stores of the count. If the count is 0, this thread sees the
    // effects of all earlier copies.
    if (count_.load(std::memory_order_acquire) == 0) return true;
    std::vector<held> found;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& [where, transfer] : transfers_)
        if (concerns(where)) found.push_back(transfer);
    }
    return wait(found, deadline);
  }

  /// Sets the has_transfers of a lane to true if the lane has copies in progress, otherwise to
  /// false.
  void update(am::requester& lane);

 private:
  /// Reference that keeps a completion alive.
  class held {
   public:
    explicit held(am::local_completion& event) noexcept : event_(&event) { event.retain(); }
    held(const held& other) noexcept : held(*other.event_) {}
    held& operator=(held other) noexcept {
      std::swap(event_, other.event_);
      return *this;
    }
    ~held() { event_->release(); }
    [[nodiscard]] am::local_completion& operator*() const noexcept { return *event_; }

   private:
    am::local_completion* event_;
  };

  [[nodiscard]] bool wait(const std::vector<held>& transfers, time_point deadline);
  void forget_ready();

  std::mutex mutex_;
  std::vector<std::pair<place, held>> transfers_;
  std::atomic<std::size_t> count_{0}; ///< size of transfers_; changed while the mutex is held
};

} // namespace farcall::detail
