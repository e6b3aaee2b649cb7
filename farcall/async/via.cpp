// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/via.hpp>
#include <farcall/base/error.hpp>

namespace farcall::detail {

std::exception_ptr dropped_by_executor() noexcept {
  try {
    return std::make_exception_ptr(
        error("the executor given to via() has dropped the function that was posted, without "
              "running it; it must run each one before it ends"));
  } catch (...) {
    return std::current_exception();
  }
}

} // namespace farcall::detail
