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

/// Copies that may still change memory of nodes, or read it, and that something else has to wait
/// for. Any thread may use it.
class pending_transfers {
 public:
  /// What it touches.
  struct place {
    node_id peer;
    am::requester* lane; ///< whose calls in order wait for it; null for none
    std::uint64_t begin; ///< address at the peer
    std::uint64_t end;
  };

  /// Sets has_transfers of its lane. Throws std::bad_alloc.
  void add(const place& where, am::local_completion& transfer);

  /// Waits for those that `concerns(place)` is true of; false when `deadline` passed.
  template <class F>
  [[nodiscard]] bool settle(const F& concerns, time_point deadline) {
    // Acquire; partner: the release store in add().
    if (count_.load(std::memory_order_acquire) == 0) return true;
    std::vector<held> found;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& [where, transfer] : transfers_)
        if (concerns(where)) found.push_back(transfer);
    }
    return wait(found, deadline);
  }

  /// Clears has_transfers of a lane that none is left of.
  void update(am::requester& lane);

 private:
  /// Keeps the event.
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
  std::atomic<std::size_t> count_{0}; ///< of these; changes with the mutex
};

} // namespace farcall::detail
