// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Copies between this layer's memory and memory that a program has passed to a call. A bad address
/// is refused with EFAULT, as in a system call. The names are the kernel's.
///
/// Other threads must not unmap the memory during the call. If the memory is longer than 64 KiB,
/// the check may miss a page in the middle that is mapped without the needed permission. The check
/// misses such a page in mapped files, and if the system cannot be asked for its mappings (before
/// Linux 6.11).
namespace farcall::files {

/// True if the memory may be read.
[[nodiscard]] bool is_readable(const void* from, std::size_t bytes) noexcept;

/// True if the memory may be written to. The memory keeps its content.
[[nodiscard]] bool is_writable(void* to, std::size_t bytes) noexcept;

/// Copies to memory that a program has passed to a call. Returns false if `to` may not be written
/// to. In this case a few bytes at `to` may have changed.
[[nodiscard]] bool copy_to_user(void* to, const void* from, std::size_t bytes) noexcept;

/// Copies from memory that a program has passed to a call. Returns false if `from` may not be read.
[[nodiscard]] bool copy_from_user(void* to, const void* from, std::size_t bytes) noexcept;

} // namespace farcall::files
