// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace farcall::veo {

/// Stack on which kernels run. The pages below it are inaccessible, so that an overflow raises a
/// fault.
class kernel_stack {
 public:
  /// Maps a stack of at least `bytes` bytes. Its pages take memory only when they are first used.
  /// Throws std::system_error.
  explicit kernel_stack(std::size_t bytes);
  ~kernel_stack();
  kernel_stack(const kernel_stack&) = delete;
  kernel_stack& operator=(const kernel_stack&) = delete;

  void* top() const noexcept;
  std::size_t bytes() const noexcept;

 private:
  std::byte* mapping_;
  std::size_t mapped_;
};

} // namespace farcall::veo
