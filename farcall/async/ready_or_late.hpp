// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/counted.hpp>

namespace farcall::detail {

/// Runs a continuation when a future is ready or its deadline has passed, whichever comes first.
/// For code that waits for several futures, each with its own deadline. Any thread may use it.
class ready_or_late {
 public:
  /// Constructs an object for a future that is ready from the start, or has no deadline.
  ready_or_late() noexcept;
  /// `event` is the future's state, and must outlive the call of end(). Throws std::bad_alloc and
  /// std::system_error.
  ready_or_late(am::completion* event, time_point deadline);
  ready_or_late(ready_or_late&& other) noexcept;
  ready_or_late& operator=(ready_or_late&& other) noexcept;
  ready_or_late(const ready_or_late&) = delete;
  ready_or_late& operator=(const ready_or_late&) = delete;
  ~ready_or_late();

  /// Starts to wait. `then` may run before begin() returns.
  void begin(am::completion* event, am::continuation& then) noexcept;

  /// Ends the wait, and detaches from the event. Must be called before the future is used or passed
  /// on. Returns true if `then` will never run; false if it has run or is running.
  [[nodiscard]] bool end(am::completion* event, const am::continuation* then) noexcept;

 private:
  class state;

  counted_ptr<state> state_;
};

} // namespace farcall::detail
