#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <span>

namespace farcall {

/// A way to copy bytes that do not overlap; any alignment, any size. The bytes are ordered before a
/// later release operation of the same thread.
struct copy_kernel {
  const char* name;
  void (*copy)(void* to, const void* from, std::size_t bytes) noexcept;
};

/// Those worth a try for large copies on this processor, libc's memcpy first; never empty.
[[nodiscard]] std::span<const copy_kernel> copy_kernels() noexcept;

/// Writes past the caches, where this processor can: for what another one reads next, which would
/// otherwise have to fetch each line from this one's cache.
[[nodiscard]] const copy_kernel& streaming_copy() noexcept;

/// All that this processor can run: for tests and benchmarks.
[[nodiscard]] std::span<const copy_kernel> all_copy_kernels() noexcept;

} // namespace farcall
