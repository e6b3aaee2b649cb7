#pragma once

#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/farcall.h>

#include <cstddef>
#include <exception>
#include <string_view>

/// Exceptions as statuses, and the calling thread's last error.
namespace farcall::c {

/// An argument of a C function that makes no sense. Threads may share one.
class invalid_argument : public error {
 public:
  using error::error;
};

/// Remembers a failure of the calling thread and returns its status.
fc_status fail(fc_status status, std::string_view text, node_id node = no_node,
               std::string_view type = "") noexcept;

/// Throws invalid_argument that says which parameter is null.
void require(const void* pointer, const char* parameter);
/// Throws invalid_argument for what is longer than any object, as a negative number is.
void require_size(std::size_t size);

/// The same for the exception that is being handled.
fc_status fail_with_current() noexcept;

/// Runs `f`, which throws or returns a status; FC_OK when it returns nothing.
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

} // namespace farcall::c
