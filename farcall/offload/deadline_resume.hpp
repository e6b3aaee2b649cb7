#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>

#include <coroutine>
#include <utility>

namespace farcall::detail {

class many_continuations;

/// Resumes a coroutine when an event is ready or a deadline has passed, whichever comes first. Part
/// of an awaiter, which holds the event for longer.
class deadline_resume {
 public:
  deadline_resume() noexcept = default;
  deadline_resume(const deadline_resume&) = delete;
  deadline_resume& operator=(const deadline_resume&) = delete;
  /// A coroutine that is destroyed while it waits is not resumed.
  ~deadline_resume() {
    if (state_ != nullptr) end();
  }

  /// Once. `all`: what to attach to in place of the event, null for that. The coroutine may have
  /// been resumed, and this be gone, on return. Throws std::bad_alloc and std::system_error.
  void begin(std::coroutine_handle<> waiting, am::completion& event, many_continuations* all,
             time_point deadline);

  /// The coroutine goes on because of the deadline.
  [[nodiscard]] bool is_late() const noexcept;

 private:
  class state;

  void end() noexcept;

  state* state_ = nullptr;
};

/// Who runs what follows an event: where that does not say, the process's only job, if there is
/// one.
[[nodiscard]] am::client* owner_of(const am::completion& event) noexcept;

} // namespace farcall::detail
