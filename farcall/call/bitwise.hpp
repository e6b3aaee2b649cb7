// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/call/malformed.hpp>
#include <farcall/call/packer.hpp>

#include <array>
#include <bitset>
#include <climits>
#include <cstddef>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace farcall {
namespace detail {

template <class T>
inline constexpr bool is_boolean = std::is_same_v<T, bool>;
template <class T>
  requires std::is_enum_v<T>
inline constexpr bool is_boolean<T> = std::is_same_v<std::underlying_type_t<T>, bool>;

/// Reads an aligned number on which the reader's next steps depend. The number is read only once,
/// by a volatile access, because a second read, after the check, could find another value that the
/// peer has written in the meantime.
template <class Integer>
[[nodiscard]] Integer load_once(const std::byte* from) noexcept {
  return *reinterpret_cast<const volatile Integer*>(from);
}

[[nodiscard]] inline bool load_bool(const std::byte* from) {
  const auto value = load_once<unsigned char>(from);
  if (value > 1) throw_out_of_range("a bool", value, 2);
  return value != 0;
}

/// Check of the bytes of a T from a peer. Needed for types for which some bit patterns are no
/// values of the type, because a peer may send such patterns.
template <class T>
struct bit_check {
  static constexpr bool needed = is_boolean<T>;
  static void run(const std::byte* at) { static_cast<void>(load_bool(at)); }
};

template <class T, std::size_t N>
struct bit_check<std::array<T, N>> {
  static constexpr bool needed = N != 0 && bit_check<T>::needed;
  static void run(const std::byte* at) {
    for (std::size_t i = 0; i != N; ++i)
      bit_check<T>::run(at + i * sizeof(T));
  }
};

template <std::size_t N>
struct bit_check<std::bitset<N>> {
  static constexpr bool needed = sizeof(std::bitset<N>) * CHAR_BIT != N && N != 0;
  static void run(const std::byte* at) {
    std::bitset<N> value;
    std::memcpy(static_cast<void*>(&value), at, sizeof value);
    if ((value & std::bitset<N>().set()) != value) {
      throw_malformed("a std::bitset with bits set past its end");
    }
  }
};

/// Checks `count` elements of a bitwise type T in a message.
template <class T>
void check_bits(const std::byte* at, std::size_t count) {
  if constexpr (bit_check<T>::needed) {
    for (std::size_t i = 0; i != count; ++i)
      bit_check<T>::run(at + i * sizeof(T));
  }
}

/// Returns the value that has these bytes. An array filled by memcpy or with zeroes implicitly
/// holds an object of any trivially copyable type. std::bit_cast cannot be used, because g++ 12
/// refuses it for closures in some contexts.
template <class T>
[[nodiscard]] T value_in(std::array<std::byte, sizeof(T)>& bytes) noexcept {
  return std::move(*std::launder(reinterpret_cast<T*>(bytes.data())));
}

} // namespace detail

/// Writes the packed_bytes<T> bytes of a value to `to`, which need not be aligned.
template <class T>
  requires is_bitwise<T>
void store_bitwise(std::byte* to, const T& value) noexcept {
  if constexpr (packed_bytes<T> != 0) {
    std::memcpy(to, static_cast<const void*>(std::addressof(value)), sizeof(T));
  }
}

/// Reads a value from packed_bytes<T> bytes at `from`, which need not be aligned. Throws
/// malformed_message if the bytes are no valid bool or std::bitset.
template <class T>
  requires is_bitwise<T>
[[nodiscard]] std::remove_cv_t<T> load_bitwise(const std::byte* from) {
  using value_type = std::remove_cv_t<T>;
  if constexpr (std::is_null_pointer_v<value_type>) {
    return nullptr;
  } else if constexpr (packed_bytes<T> == 0) {
    alignas(value_type) std::array<std::byte, sizeof(T)> none{};
    return detail::value_in<value_type>(none);
  } else if constexpr (detail::is_boolean<value_type>) {
    return static_cast<value_type>(detail::load_bool(from));
  } else if constexpr (std::is_trivially_default_constructible_v<value_type> &&
                       !detail::bit_check<value_type>::needed) {
    value_type value;
    std::memcpy(static_cast<void*>(std::addressof(value)), from, sizeof value);
    return value;
  } else {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the next line fills it
    alignas(value_type) std::array<std::byte, sizeof(T)> copy;
    std::memcpy(copy.data(), from, sizeof copy);
    detail::check_bits<value_type>(copy.data(), 1);
    return detail::value_in<value_type>(copy);
  }
}

/// Positions in a message of values of the bitwise types T..., computed at compile time. store()
/// writes the same bytes as a writer, but it counts nothing and has no branches.
///
/// The body of the message must be aligned to body_alignment. store() needs `size` bytes of space.
/// The caller of load() must have checked that the message is at least `size` bytes long.
template <class... T>
struct bitwise_layout {
  static_assert((is_bitwise<T> && ...));

  /// Number of values.
  static constexpr std::size_t count = sizeof...(T);

 private:
  struct places {
    std::array<std::size_t, count + 1> offset{};
    std::array<std::size_t, count + 1> end{};
  };

  static constexpr places place = [] {
    constexpr std::array<std::size_t, count + 1> bytes{packed_bytes<T>..., 0};
    constexpr std::array<std::size_t, count + 1> alignment{packed_alignment<T>..., 1};
    places result;
    std::size_t at = 0;
    for (std::size_t i = 0; i != count; ++i) {
      if (bytes[i] != 0) at = align_up(at, alignment[i]);
      result.offset[i] = at;
      at += bytes[i];
      result.end[i] = at;
    }
    result.offset[count] = at;
    return result;
  }();

 public:
  /// Size of all values together, including the padding between them, in bytes.
  static constexpr std::size_t size = place.offset[count];

  /// Offset of value `i`.
  [[nodiscard]] static constexpr std::size_t offset(std::size_t i) { return place.offset[i]; }

  static void store(std::byte* to, const T&... values) noexcept {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (store_one<I>(to, values), ...);
    }(std::index_sequence_for<T...>{});
  }

  /// Returns the value with index I. Throws malformed_message, like load_bitwise().
  template <std::size_t I>
  [[nodiscard]] static auto load(const std::byte* from) {
    return load_bitwise<std::tuple_element_t<I, std::tuple<T...>>>(from + offset(I));
  }

 private:
  template <std::size_t I, class U>
  static void store_one(std::byte* to, const U& value) noexcept {
    constexpr std::size_t gap_begin = I == 0 ? 0 : place.end[I == 0 ? 0 : I - 1];
    if constexpr (offset(I) != gap_begin) std::memset(to + gap_begin, 0, offset(I) - gap_begin);
    store_bitwise(to + offset(I), value);
  }
};

} // namespace farcall
