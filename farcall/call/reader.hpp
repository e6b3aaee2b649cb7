// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/bitwise.hpp>
#include <farcall/call/malformed.hpp>
#include <farcall/call/not_packable.hpp>
#include <farcall/call/packer.hpp>
#include <farcall/call/standard_types.hpp>
#include <farcall/call/writer.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {
namespace detail {

/// Returns the position after a value that begins at `before` in a message. Returns `otherwise` if
/// the value's packer throws.
template <class T>
[[nodiscard]] std::size_t packed_end(std::size_t before, const T& value, std::size_t otherwise) {
  try {
    auto count = writer::counting();
    count.bytes(nullptr, before);
    count(value);
    return count.size();
  } catch (...) {
    return otherwise;
  }
}

} // namespace detail

/// Unpacks the values that a writer packed. The bytes come from another node and are untrusted. For
/// any bytes, reading returns values or throws malformed_message, and allocates no more memory than
/// the remaining bytes justify. The caller owns the bytes, which must be aligned to body_alignment,
/// and must keep them as long as values with views. Used by one thread at a time.
class reader {
 public:
  /// Makes a reader of `bytes` bytes at `from`, which must be aligned to body_alignment.
  reader(const std::byte* from, std::size_t bytes) noexcept : from_(from), size_(bytes) {
    assert(reinterpret_cast<std::uintptr_t>(from) % body_alignment == 0);
  }

  /// Returns the next value. Throws malformed_message if the remaining bytes contain none.
  template <class T>
  [[nodiscard]] T read() {
    if constexpr (!packable<T>) {
      require_packable<T>();
      std::terminate(); // so that the compiler does not complain about a missing return
    } else if constexpr (is_bitwise<T>) {
      return load_bitwise<T>(bytes(packed_bytes<T>, packed_alignment<T>));
    } else {
      using value_type = std::remove_cv_t<T>;
      const nesting level(*this);
      if constexpr (detail::has_own_packer<value_type>) {
        if (is_checking_) [[unlikely]]
          return read_and_check<value_type>();
      }
      return packer<value_type>::unpack(*this);
    }
  }

  /// Returns the next `n` bytes, after padding to a multiple of `alignment`. It is the counterpart
  /// of writer::bytes(). The address has this alignment unless `n` is 0. Throws malformed_message
  /// if fewer bytes are left.
  [[nodiscard]] const std::byte* bytes(std::size_t n, std::size_t alignment = 1) {
    assert(is_power_of_two(alignment) && alignment <= body_alignment);
    if (n == 0) return from_ + position_;
    const std::size_t padding = align_up(position_, alignment) - position_;
    if (padding > remaining() || n > remaining() - padding) throw_message_too_short(n, remaining());
    const std::byte* const begin = from_ + position_ + padding;
    position_ += padding + n;
    return begin;
  }

  /// Returns the next unsigned integer, which is read only once from the memory, because a peer may
  /// still write to it. For counts and similar numbers, which a packer checks before it uses them.
  /// Throws malformed_message if too few bytes are left.
  template <class Integer>
  [[nodiscard]] Integer number() {
    return detail::load_once<Integer>(bytes(sizeof(Integer), sizeof(Integer)));
  }

  /// Reads and returns the number of elements that follow. Throws malformed_message if the
  /// remaining bytes are too few for that many elements of at least `min_bytes` bytes each (not 0).
  /// The number may therefore determine the size of a container.
  [[nodiscard]] std::size_t count(std::size_t min_bytes = 1) {
    const std::size_t n = number<std::uint64_t>();
    if (n > remaining() / min_bytes) detail::throw_count_too_large(n, min_bytes, remaining());
    return n;
  }

  /// For the library itself. From now on, checks after each unpack() of a packer that it has read
  /// as many bytes as pack() writes for the value. If the bytes are malformed, the error names the
  /// packer that was reading.
  void check_packers() noexcept { is_checking_ = true; }

  /// Returns the number of bytes that were not read yet.
  [[nodiscard]] std::size_t remaining() const noexcept { return size_ - position_; }

  /// Returns the number of bytes read so far.
  [[nodiscard]] std::size_t position() const noexcept { return position_; }

 private:
  class nesting {
   public:
    explicit nesting(reader& r) : depth_(r.depth_) {
      if (depth_ == max_nesting) detail::throw_nested_too_deep_to_unpack();
      ++depth_;
    }
    ~nesting() { --depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;

   private:
    std::size_t& depth_;
  };

  template <class T>
  [[gnu::noinline, gnu::cold]] T read_and_check() {
    const std::size_t before = position_;
    try {
      T value = packer<T>::unpack(*this);
      const std::size_t written = detail::packed_end(before, value, position_);
      if (written != position_) {
        is_checking_ = false;
        detail::throw_packer_differs(detail::source_name<T>(), written - before,
                                     position_ - before);
      }
      return value;
    } catch (const malformed_message& why) {
      // Name only the innermost packer in the error.
      if (!std::exchange(is_checking_, false)) throw;
      detail::throw_malformed_in(detail::source_name<T>(), why);
    }
  }

  const std::byte* from_;
  std::size_t size_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  bool is_checking_ = false;
};

namespace detail {

inline void require_end(const reader& r) {
  if (r.remaining() != 0) [[unlikely]]
    throw_bytes_left(r.remaining());
}

/// Reads a malformed message again, and throws an error that names the packer at fault. Returns if
/// no packer is at fault.
template <class... T>
[[gnu::noinline, gnu::cold]] void check_packers_of(const std::byte* from, std::size_t bytes) {
  reader r(from, bytes);
  r.check_packers();
  (static_cast<void>(r.read<T>()), ...);
}

/// Returns the result of `read` for a message with values of the types T.... Throws
/// malformed_message, which names the packer at fault if possible.
template <class... T, class Read>
[[nodiscard]] auto read_message(const std::byte* from, std::size_t bytes, const Read& read) {
  if constexpr ((holds_own_packers<T>() || ...)) {
    try {
      return read(reader(from, bytes));
    } catch (const malformed_message&) {
      check_packers_of<T...>(from, bytes);
      throw;
    }
  } else {
    return read(reader(from, bytes));
  }
}

} // namespace detail

} // namespace farcall
