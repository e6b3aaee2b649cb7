// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::files {

/// Memory that a target shares with the helper of a mount. The helper has made the memory file, and
/// the target maps it.
class shared_pages {
 public:
  shared_pages() noexcept = default;
  shared_pages(const shared_pages&) = delete;
  shared_pages& operator=(const shared_pages&) = delete;
  ~shared_pages() { unmap(); }

  /// Maps `bytes` bytes of a memory file. Returns false if this fails, or if the file could shrink,
  /// because its memory would then fault.
  [[nodiscard]] bool map(const unique_fd& file, std::uint64_t bytes) noexcept;

  [[nodiscard]] bool is_mapped() const noexcept { return begin_ != nullptr; }

  /// Returns the memory at a position, or null if `bytes` bytes from there are not inside.
  [[nodiscard]] void* at(std::uint64_t position, std::uint64_t bytes) const noexcept;

 private:
  void unmap() noexcept;

  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

} // namespace farcall::files
