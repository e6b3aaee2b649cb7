// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace farcall {

/// Free list of memory blocks for objects of one class. By this list, a thread reuses the memory of
/// objects that it has destroyed. The list is a `thread_local` object that the operators new and
/// delete of the class use.
class kept_blocks {
 public:
  constexpr kept_blocks() noexcept = default;
  kept_blocks(const kept_blocks&) = delete;
  kept_blocks& operator=(const kept_blocks&) = delete;
  ~kept_blocks() {
    while (first_ != nullptr)
      ::operator delete(take());
    is_over_ = true;
  }

  /// Throws std::bad_alloc.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    return first_ != nullptr ? take() : ::operator new(bytes);
  }
  void release(void* block) noexcept {
    // If the list has been destroyed, return the block to the heap. An object of the class may be
    // destroyed after the thread-local list, for instance as a part of a static object.
    if (count_ == most || is_over_) return ::operator delete(block);
    ++count_;
    *static_cast<void**>(block) = std::exchange(first_, block);
  }

 private:
  static constexpr std::size_t most = 256;

  [[nodiscard]] void* take() noexcept {
    --count_;
    return std::exchange(first_, *static_cast<void**>(first_));
  }

  void* first_ = nullptr; ///< first free block; each block starts with the address of the next one
  std::size_t count_ = 0;
  bool is_over_ = false;
};

} // namespace farcall
