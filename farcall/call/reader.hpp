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

/// Where a value ends that begins at `before` in a message; `otherwise` when its packer does not
/// say.
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

/// Unpacks the values that a writer packed. The bytes come from another node and are taken to be
/// hostile: whatever they are, reading gives values or throws malformed_message, and allocates no
/// more than the bytes that are there can justify. The bytes are the caller's, aligned to
/// body_alignment, and must outlive values of types that have views. Used by one thread at a time.
class reader {
 public:
  /// Reads `bytes` bytes from `from`, which is aligned to body_alignment.
  reader(const std::byte* from, std::size_t bytes) noexcept : from_(from), size_(bytes) {
    assert(reinterpret_cast<std::uintptr_t>(from) % body_alignment == 0);
  }

  /// The next value. Throws malformed_message when the bytes left hold none.
  template <class T>
  [[nodiscard]] T read() {
    if constexpr (!packable<T>) {
      require_packable<T>();
      std::terminate(); // for the compiler, which would miss a return
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

  /// The next `n` bytes, behind the zero bytes up to a multiple of `alignment`: the counterpart of
  /// writer::bytes. The address is aligned accordingly unless `n` is 0. Throws malformed_message
  /// when there are fewer.
  [[nodiscard]] const std::byte* bytes(std::size_t n, std::size_t alignment = 1) {
    assert(is_power_of_two(alignment) && alignment <= body_alignment);
    if (n == 0) return from_ + position_;
    const std::size_t padding = align_up(position_, alignment) - position_;
    if (padding > remaining() || n > remaining() - padding) throw_message_too_short(n, remaining());
    const std::byte* const begin = from_ + position_ + padding;
    position_ += padding + n;
    return begin;
  }

  /// The next value of an unsigned integer type, fetched once: for counts and the like, which a
  /// packer checks before it relies on them, from memory that a peer may still write to. Throws
  /// malformed_message when too few bytes are left.
  template <class Integer>
  [[nodiscard]] Integer number() {
    return detail::load_once<Integer>(bytes(sizeof(Integer), sizeof(Integer)));
  }

  /// The number of elements that follow. Throws unless each can have `least_bytes` (not 0) of the
  /// bytes left, so that a container may be sized by it.
  [[nodiscard]] std::size_t count(std::size_t least_bytes = 1) {
    const std::size_t n = number<std::uint64_t>();
    if (n > remaining() / least_bytes) detail::throw_count_too_large(n, least_bytes, remaining());
    return n;
  }

  /// For the library itself: from here on it compares what packers read with what they write, and
  /// says which one was at work when the bytes turn out to be malformed.
  void check_packers() noexcept { is_checking_ = true; }

  /// Bytes not read yet.
  [[nodiscard]] std::size_t remaining() const noexcept { return size_ - position_; }

  /// Bytes read so far.
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
      // The innermost is the one to name.
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

/// Reads a message again that is malformed, or has bytes left, to name the packer at fault; returns
/// when it finds none.
template <class... T>
[[gnu::noinline, gnu::cold]] void check_packers_of(const std::byte* from, std::size_t bytes) {
  reader r(from, bytes);
  r.check_packers();
  (static_cast<void>(r.read<T>()), ...);
}

/// What `read` makes of a message of values of types T... Throws malformed_message, which names the
/// packer at fault if that can be told.
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
