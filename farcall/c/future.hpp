// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/stop_token.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/farcall.h>

#include <cstddef>
#include <exception>
#include <utility>
#include <variant>

/// The future of a call or a copy that the program has started. Later the object also has the
/// result. Used by one thread at a time.
struct fc_future {
  explicit fc_future(farcall::future<farcall::message_reply> call, fc_function called) noexcept
      : pending(std::move(call)), function(called) {}
  /// Makes the future of a call that can be stopped. fc_future_stop() stops the call by the object
  /// `ending`.
  fc_future(farcall::future<farcall::message_reply> call, fc_function called,
            farcall::counted_ptr<farcall::am::stop_state> ending) noexcept
      : pending(std::move(call)), function(called), stop(std::move(ending)) {}
  explicit fc_future(farcall::future<void> copy) noexcept : pending(std::move(copy)) {}

  /// Reuses the memory of futures that the calling thread has dropped, so that most calls need no
  /// heap allocation.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  /// The C++ future. It is empty once its result was stored in this object.
  std::variant<farcall::future<farcall::message_reply>, farcall::future<void>> pending;
  fc_function function = 0; ///< 0 for a copy
  bool is_settled = false;  ///< true once `result` or `failure` is stored
  farcall::message_reply result;
  std::exception_ptr failure;
  /// Object by which the call is stopped; null for a copy, and for a call that cannot be stopped.
  /// The pointer never changes, so that any thread may read it.
  const farcall::counted_ptr<farcall::am::stop_state> stop;
};

namespace farcall::c {

/// Returns the future of the call that `start()` starts, for fc_call_async() and the like. The
/// caller owns the future. If fc_stoppable() has marked `where`, fc_future_stop() can stop the
/// call.
template <class Start>
[[nodiscard]] fc_future* future_of_call(const fc_node& where, fc_function function,
                                        const Start& start) {
  if ((where.flags & stoppable_flag) == 0) [[likely]]
    return new fc_future(start(), function);
  // Use am::stop_state, because some standard libraries lack std::stop_source.
  counted_ptr<am::stop_state> stop(new am::stop_state);
  auto call = stop_when(start(), call_stop_token(stop));
  return new fc_future(std::move(call), function, std::move(stop));
}

/// Takes the result of a call out of its future, which must be ready. If the call has failed,
/// throws the call's error. For an unknown_function error, puts the function's name in the text.
[[nodiscard]] message_reply result_of(future<message_reply>& ready, fc_function function);

/// Waits for a call that no code will wait for again. If the wait is interrupted, lets the call end
/// like a call whose deadline has passed. Throws what future::wait() throws, and interrupted.
void wait_or_stop(future<message_reply>& call);

/// Returns the object on which a thread can wait for the future. Returns null if the result was
/// stored in `f` already.
[[nodiscard]] am::completion* state_of(const fc_future& f) noexcept;
/// Returns the deadline of the call or copy.
[[nodiscard]] time_point deadline_of(const fc_future& f) noexcept;

/// Waits until the future is ready, and stores its result in `f`. If the deadline of the call
/// passes before, throws timeout, and the caller can wait for `f` again.
void settle(fc_future& f);

} // namespace farcall::c
