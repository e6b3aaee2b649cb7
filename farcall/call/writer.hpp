// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/call/malformed.hpp>
#include <farcall/call/not_packable.hpp>
#include <farcall/call/packer.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace farcall {

/// Packs values, one after the other, into memory that is large enough, or only counts their bytes.
/// The caller owns the memory, which must be aligned to body_alignment. Used by one thread at a
/// time.
class writer {
 public:
  /// Makes a writer that writes to `to`. The writer throws error instead of writing more than
  /// `capacity` bytes.
  explicit writer(std::byte* to, std::size_t capacity = SIZE_MAX) noexcept
      : to_(to), capacity_(capacity) {
    assert(reinterpret_cast<std::uintptr_t>(to) % body_alignment == 0);
  }

  /// Returns a writer that writes no bytes and only counts them, so that size() is the space that
  /// the values need.
  [[nodiscard]] static writer counting() noexcept { return writer(nullptr); }

  /// Packs values of packable types, in this order. Throws error if they do not fit the memory, and
  /// what their packers throw.
  template <class... T>
  void operator()(const T&... values) {
    if constexpr ((packable<T> && ...)) {
      (one(values), ...);
    } else {
      require_packable<T...>();
    }
  }

  /// Copies `n` bytes from `from`, after padding with zeros to a multiple of `alignment` (at most
  /// body_alignment). If `n` is 0, no padding is added either. Throws error if the bytes do not
  /// fit.
  void bytes(const void* from, std::size_t n, std::size_t alignment = 1) {
    assert(is_power_of_two(alignment) && alignment <= body_alignment);
    if (n == 0) return;
    const std::size_t padding = align_up(size_, alignment) - size_;
    if (padding > capacity_ - size_ || n > capacity_ - size_ - padding) {
      detail::throw_packed_beyond(size_ + n, capacity_);
    }
    if (to_ != nullptr) {
      if (padding != 0) std::memset(to_ + size_, 0, padding);
      std::memcpy(to_ + size_ + padding, from, n);
    }
    size_ += padding + n;
  }

  /// Returns the number of bytes that were packed so far.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  template <class T>
  void one(const T& value) {
    if constexpr (is_bitwise<T>) {
      bytes(std::addressof(value), packed_bytes<T>, packed_alignment<T>);
    } else {
      if (depth_ == max_nesting) detail::throw_nested_too_deep_to_pack();
      ++depth_;
      packer<T>::pack(*this, value);
      --depth_;
    }
  }

  std::byte* to_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  std::size_t depth_ = 0;
};

/// Returns the number of bytes that a writer needs for these values. Throws what their packers
/// throw.
template <class... T>
[[nodiscard]] std::size_t packed_size(const T&... values) {
  auto count = writer::counting();
  count(values...);
  return count.size();
}

} // namespace farcall
