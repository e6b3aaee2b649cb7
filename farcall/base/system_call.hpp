#pragma once

#include <farcall/base/language.hpp>

#include <cerrno>

namespace farcall {

/// True if `reason`, an errno, says that the process cannot have a system call that needs no
/// rights: the kernel lacks it, or a seccomp filter refuses it. EPERM comes from a filter older
/// than the kernel.
[[nodiscard]] constexpr bool is_call_unavailable(int reason) noexcept {
  return reason == ENOSYS || reason == EPERM;
}

} // namespace farcall
