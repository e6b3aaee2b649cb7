// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>

#include <coroutine>
#include <utility>

namespace farcall::detail {

class many_continuations;

/// Resumes a coroutine when an event is ready or a deadline has passed, whichever comes first. An
/// object is a member of an awaiter. The awaiter must hold the event until this object has been
/// destroyed.
class deadline_resume {
 public:
  deadline_resume() noexcept = default;
  deadline_resume(const deadline_resume&) = delete;
  deadline_resume& operator=(const deadline_resume&) = delete;
  /// Ends the wait, so that a coroutine that is destroyed while it waits is not resumed.
  ~deadline_resume() {
    if (state_ != nullptr) end();
  }

  /// Starts the wait; call once. Attaches the wait to `all`, the continuations of a shared future,
  /// or to the event if `all` is null. On return the coroutine may have been resumed, and this
  /// object destroyed. Throws std::bad_alloc and std::system_error.
  void begin(std::coroutine_handle<> waiting, am::completion& event, many_continuations* all,
             time_point deadline);

  /// Returns true if the coroutine was resumed by the deadline.
  [[nodiscard]] bool is_late() const noexcept;

 private:
  class state;

  void end() noexcept;

  state* state_ = nullptr;
};

/// Returns the client whose threads run continuations of the event. If the event does not know its
/// client, returns the client of the process's only job. Returns null if the process has no such
/// job.
[[nodiscard]] am::client* owner_of(const am::completion& event) noexcept;

} // namespace farcall::detail
