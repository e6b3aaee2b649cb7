// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace farcall {

/// Array whose bytes are zero at first. Pages of a large array take physical memory only after they
/// were written. Includes no <memory>, so that farcall.hpp stays small.
template <class T>
  requires std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>
class zeroed_array {
 public:
  zeroed_array() noexcept = default;
  /// Makes an array of `size` elements. Throws std::bad_alloc.
  explicit zeroed_array(std::size_t size)
      // NOLINTNEXTLINE(bugprone-sizeof-expression): the elements may be pointers
      : elements_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (elements_ == nullptr && size != 0) throw std::bad_alloc();
  }
  zeroed_array(zeroed_array&& other) noexcept
      : elements_(std::exchange(other.elements_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  zeroed_array& operator=(zeroed_array&& other) noexcept {
    std::swap(elements_, other.elements_);
    std::swap(size_, other.size_);
    return *this;
  }
  zeroed_array(const zeroed_array&) = delete;
  zeroed_array& operator=(const zeroed_array&) = delete;
  ~zeroed_array() { std::free(elements_); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return elements_[i]; }
  [[nodiscard]] std::span<T> span() const noexcept { return {elements_, size_}; }

 private:
  T* elements_ = nullptr; ///< owned; from calloc(), which maps large arrays
  std::size_t size_ = 0;
};

} // namespace farcall
