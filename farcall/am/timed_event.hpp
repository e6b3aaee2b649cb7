// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/base/event_loop.hpp>

#include <memory>

namespace farcall::am {

/// An event that happens at a point in time, such as the deadline of a coroutine, without a thread
/// that waits for it. Any thread may use it.
class timed_event : public timer {
 public:
  /// Makes an event whose continuations run on the completion thread of `owner`. `owner` is null
  /// for an event without a client. Starts the process's event loop. Throws error, std::bad_alloc
  /// and std::system_error.
  explicit timed_event(client* owner);
  ~timed_event() override { loop_->unreserve_timer(); }

  /// Makes the event loop call happen() at `when`, or at once if that time has passed. Keeps the
  /// event alive until then.
  void set(time_point when) noexcept { loop_->set(*this, when); }
  /// Cancels the event. Has no effect if the event is happening, has happened, or was never set.
  void cancel() noexcept { loop_->cancel(*this); }

 protected:
  /// Does the event's work. Called on the event loop's thread when the event's time has come, with
  /// no lock held. Must not block. Continuations that become due run on another thread: the
  /// completion thread of the owner's engine if that engine still exists.
  virtual void happen() noexcept = 0;

 private:
  void expire() noexcept final;

  event_loop* loop_;
  std::weak_ptr<engine> owner_;
};

} // namespace farcall::am
