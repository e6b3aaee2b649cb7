// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace farcall::tcp {

/// Calls a function on the loop's thread soon after a lane has deferred sending. Repeats the call
/// as long as some lane has deferred sending again since the last call. The transport and its lanes
/// own the object together. Any thread may call the member functions.
class deferral_sweep final : public timer {
 public:
  /// `sweep` must not block. `loop` outlives this object. Throws std::bad_alloc.
  deferral_sweep(event_loop& loop, std::function<void()> sweep);
  ~deferral_sweep() override { loop_->unreserve_timer(); }

  /// Schedules a call of the function, because a lane has deferred its sending or its closing.
  void note() noexcept;

  /// Stops the calls of the function. Waits for a call that is running.
  void stop() noexcept;

 private:
  void expire() noexcept override;
  void begin() noexcept;

  event_loop* loop_;
  std::mutex mutex_;
  std::function<void()> sweep_; ///< guarded by mutex_; empty after stop()
  std::atomic<std::uint32_t> notes_{0};
  std::atomic<bool> is_sweeping_{false};
  std::uint32_t seen_ = 0; ///< number of notes at the last call; used on the loop's thread only
};

} // namespace farcall::tcp
