// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <memory>

namespace farcall::files {

/// Memory for the bytes of one message after another. The bytes are uninitialised. Used by one
/// thread.
class message_memory {
 public:
  /// Maximum number of bytes that are kept between two messages, because a target may have many
  /// clients that send a large message once.
  static constexpr std::size_t max_kept = std::size_t{64} << 10;

  /// Makes space for `bytes` bytes. The bytes of the message before are lost. Throws
  /// std::bad_alloc.
  void begin(std::size_t bytes) {
    bytes_ = 0;
    if (bytes > space_) {
      space_ = 0;
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      space_ = bytes;
    }
    bytes_ = bytes;
  }
  /// Leaves out the bytes after the first `bytes` bytes.
  void shorten(std::size_t bytes) noexcept {
    if (bytes < bytes_) bytes_ = bytes;
  }
  /// Ends a message: frees the memory if it is larger than max_kept.
  void end() noexcept {
    bytes_ = 0;
    if (space_ <= max_kept) return;
    space_ = 0;
    memory_.reset();
  }

  [[nodiscard]] std::byte* data() noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Returns the number of bytes that the object occupies.
  [[nodiscard]] std::size_t space() const noexcept { return space_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t space_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace farcall::files
