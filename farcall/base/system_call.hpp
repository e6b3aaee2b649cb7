// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cerrno>

namespace farcall {

/// True if a system call that needs no rights has failed with `reason` because it is not available
/// at all. The kernel may lack the call (ENOSYS), or a seccomp filter may refuse it. A filter that
/// does not know a new call returns EPERM.
[[nodiscard]] constexpr bool is_call_unavailable(int reason) noexcept {
  return reason == ENOSYS || reason == EPERM;
}

} // namespace farcall
