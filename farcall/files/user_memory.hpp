#pragma once

#include <cstddef>

/// Copies between memory of this layer's and memory that a program has named in a call, which a
/// system call would refuse with EFAULT if it were not there. As the kernel's functions of the same
/// names.
///
/// What they look at stays mapped during the call, as far as other threads are concerned. Where the
/// system has no list of mappings that can be asked (Linux 6.11), and for mapped files, mappings in
/// the middle of what is longer than 64 KiB that are there and must not be used that way are not
/// noticed.
namespace farcall::files {

/// Whether it may be read.
[[nodiscard]] bool is_readable(const void* from, std::size_t bytes) noexcept;

/// False where `to` must not be written; a few bytes of what may be can have changed then.
[[nodiscard]] bool copy_to_user(void* to, const void* from, std::size_t bytes) noexcept;

/// False where `from` must not be read.
[[nodiscard]] bool copy_from_user(void* to, const void* from, std::size_t bytes) noexcept;

} // namespace farcall::files
