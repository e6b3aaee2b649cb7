#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/counted.hpp>

namespace farcall::detail {

/// Runs a continuation when a future is ready or its deadline has passed, whichever comes first:
/// for what waits for several futures, each with a deadline of its own. Any thread may use it.
class ready_or_late {
 public:
  /// Of a future that is ready from the start, or has no deadline.
  ready_or_late() noexcept;
  /// `event` is the future's, and outlives the call of end(). Throws std::bad_alloc and
  /// std::system_error.
  ready_or_late(am::completion* event, time_point deadline);
  ready_or_late(ready_or_late&& other) noexcept;
  ready_or_late& operator=(ready_or_late&& other) noexcept;
  ready_or_late(const ready_or_late&) = delete;
  ready_or_late& operator=(const ready_or_late&) = delete;
  ~ready_or_late();

  /// From here on. `then` may run at once.
  void begin(am::completion* event, am::continuation& then) noexcept;

  /// Before the future goes to somebody else: nothing is attached to it afterwards. True when
  /// `then` will not run; false when it has run, or runs.
  [[nodiscard]] bool end(am::completion* event, const am::continuation* then) noexcept;

 private:
  class state;

  counted_ptr<state> state_;
};

} // namespace farcall::detail
