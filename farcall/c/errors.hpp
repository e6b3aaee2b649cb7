// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/interrupt.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/farcall.h>

#include <cstddef>
#include <exception>
#include <string_view>

/// Functions by which the C interface turns C++ exceptions into statuses, and stores the last error
/// of each thread.
namespace farcall::c {

/// Exception for an invalid argument of a C function. Several threads may share one exception
/// object.
class invalid_argument : public error {
 public:
  using error::error;
};

/// Stores the failure as the last error of the calling thread, and returns `status`.
fc_status fail(fc_status status, std::string_view text, node_id node = no_node,
               std::string_view type = "") noexcept;

/// If `pointer` is null, throws invalid_argument with a text that contains the name `parameter`.
void require(const void* pointer, const char* parameter);
/// Throws invalid_argument if `size` is larger than any object can be. Such a size comes, for
/// instance, from a negative number that the program has converted.
void require_size(std::size_t size);

/// Stores the caught exception as the last error of the calling thread, and returns the exception's
/// status. Must be called in a catch block.
fc_status fail_with_current() noexcept;

/// Calls `f`, and returns the status that `f` returns, or FC_OK if `f` returns nothing. If `f`
/// throws, stores the exception as the last error, and returns the status of the exception.
template <class F>
fc_status guarded(F&& f) noexcept {
  try {
    if constexpr (requires(fc_status s) { s = f(); }) {
      return f();
    } else {
      f();
      return FC_OK;
    }
  } catch (...) {
    return fail_with_current();
  }
}

/// Calls `f` like guarded(). Waits in `f` may be ended by the function that fc_set_interrupt() has
/// set for the calling thread.
template <class F>
fc_status guarded_wait(F&& f) noexcept {
  return guarded([&] {
    const am::interruptible waits;
    return f();
  });
}

} // namespace farcall::c
