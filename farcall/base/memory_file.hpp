#pragma once

#include <farcall/base/language.hpp>

#include <cerrno>

#include <sys/mman.h>

namespace farcall {

/// Makes an anonymous file in memory that cannot be executed, as memfd_create(). Systems with
/// vm.memfd_noexec=2 refuse files that could be; Linux before 6.3 knows no such file.
[[nodiscard]] inline int make_memory_file(const char* label, unsigned flags) noexcept {
  constexpr unsigned no_execution = 8; // MFD_NOEXEC_SEAL, which older headers lack
  const int made = ::memfd_create(label, flags | no_execution);
  if (made >= 0 || errno != EINVAL) return made;
  return ::memfd_create(label, flags);
}

} // namespace farcall
