#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace farcall {

/// Memory of objects of one class that a thread has destroyed, for those that it makes next. A
/// `thread_local` of the class's operators new and delete.
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
    // Static objects may end later than the thread's.
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

  void* first_ = nullptr; ///< each block begins with the address of the next
  std::size_t count_ = 0;
  bool is_over_ = false;
};

} // namespace farcall
