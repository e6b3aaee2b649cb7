// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <span>

namespace farcall {

/// A function that copies bytes that do not overlap, with any alignment and any size. The bytes are
/// ordered before a later release operation of the same thread.
struct copy_kernel {
  const char* name;
  void (*copy)(void* to, const void* from, std::size_t bytes) noexcept;
};

/// Returns the kernels that are worth a try for large copies on this processor. The first one is
/// libc's memcpy, so the list is never empty.
[[nodiscard]] std::span<const copy_kernel> copy_kernels() noexcept;

/// Returns a kernel that writes past the caches, if this processor has one; otherwise memcpy. For
/// bytes that another processor reads next. After a copy into this processor's cache, the other
/// processor would have to fetch each line from that cache.
[[nodiscard]] const copy_kernel& streaming_copy() noexcept;

/// Returns all kernels that this processor can run, for tests and benchmarks.
[[nodiscard]] std::span<const copy_kernel> all_copy_kernels() noexcept;

} // namespace farcall
