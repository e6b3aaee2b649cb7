// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cerrno>

#include <sys/mman.h>

namespace farcall {

/// Makes an anonymous file in memory, like memfd_create(), that cannot be executed. Systems with
/// vm.memfd_noexec=2 refuse executable files. On Linux before 6.3, which does not know the flag,
/// makes the file without it.
[[nodiscard]] inline int make_memory_file(const char* label, unsigned flags) noexcept {
  constexpr unsigned no_execution = 8; // MFD_NOEXEC_SEAL, which older headers lack
  const int made = ::memfd_create(label, flags | no_execution);
  if (made >= 0 || errno != EINVAL) return made;
  return ::memfd_create(label, flags);
}

} // namespace farcall
