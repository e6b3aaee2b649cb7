// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack_elements.hpp>
#include <farcall/call/standard_types.hpp>

#include <array>
#include <climits>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {

/// Packer of a std::vector. If T is bitwise, pack() copies all elements at once. If copied_at_once
/// is true, unpack() does so, too; otherwise it reads the elements one by one.
template <class T, class Allocator>
struct packer<std::vector<T, Allocator>> {
  using parts = detail::types<T>;
  using vector = std::vector<T, Allocator>;

  static void pack(writer& w, const vector& values) {
    if constexpr (is_bitwise<T>) {
      detail::pack_count(w, values.size());
      w.bytes(values.data(), values.size() * sizeof(T), detail::element_alignment<T>);
    } else {
      detail::pack_range(w, values);
    }
  }

  static vector unpack(reader& r) {
    const std::size_t n = detail::unpack_count<T>(r);
    if constexpr (copied_at_once) {
      const std::byte* const elements = r.bytes(n * sizeof(T), detail::element_alignment<T>);
      if (n == 0) return vector();
      const auto* const first = reinterpret_cast<const T*>(elements);
      return vector(first, first + n);
    } else {
      vector values;
      values.reserve(detail::justified<T>(n, r));
      detail::unpack_range<T>(r, n, [&](T&& value) { values.push_back(std::move(value)); });
      return values;
    }
  }

 private:
  /// True for a bitwise type T, except if each element must be checked, if T cannot be copied, or
  /// if T needs more alignment than a message has.
  static constexpr bool copied_at_once = [] {
    if constexpr (is_bitwise<T>) {
      return std::copy_constructible<T> && alignof(T) <= body_alignment &&
             !detail::bit_check<T>::needed;
    }
    return false;
  }();
};

/// Packer of a vector of bool. Packs eight values to a byte, with the first value in the lowest
/// bit.
template <class Allocator>
struct packer<std::vector<bool, Allocator>> {
  using parts = detail::types<>;

  static void pack(writer& w, const std::vector<bool, Allocator>& values) {
    detail::pack_count(w, values.size());
    unsigned bits = 0;
    std::size_t i = 0;
    for (const bool value : values) {
      bits |= static_cast<unsigned>(value) << (i % CHAR_BIT);
      if (++i % CHAR_BIT == 0) {
        w(static_cast<std::byte>(bits));
        bits = 0;
      }
    }
    if (i % CHAR_BIT != 0) w(static_cast<std::byte>(bits));
  }

  static std::vector<bool, Allocator> unpack(reader& r) {
    const auto n = r.number<std::uint64_t>();
    const std::size_t bytes = n / CHAR_BIT + (n % CHAR_BIT != 0 ? 1 : 0);
    if (bytes > r.remaining()) throw_message_too_short(bytes, r.remaining());
    const std::byte* const bits = r.bytes(bytes);
    std::vector<bool, Allocator> values(n);
    for (std::size_t i = 0; i != n; ++i) {
      values[i] = (std::to_integer<unsigned>(bits[i / CHAR_BIT]) >> (i % CHAR_BIT) & 1U) != 0;
    }
    return values;
  }
};

/// Packer of a span, which arrives as a view into the message, aligned for T.
template <class T, std::size_t Extent>
  requires(is_bitwise<T> && alignof(T) <= body_alignment)
struct packer<std::span<const T, Extent>> {
  using parts = detail::types<T>;
  static constexpr bool has_views = true;

  static void pack(writer& w, std::span<const T, Extent> values) {
    detail::pack_count(w, values.size());
    w.bytes(values.data(), values.size_bytes(), alignof(T));
  }

  static std::span<const T, Extent> unpack(reader& r) {
    const std::size_t n = r.count(sizeof(T));
    if (Extent != std::dynamic_extent && n != Extent) {
      detail::throw_malformed("a std::span of fixed extent that has another number of elements");
    }
    const std::byte* const elements = r.bytes(n * sizeof(T), alignof(T));
    detail::check_bits<T>(elements, n);
    // If the span is empty, return null rather than an address in the message, because such an
    // address may not be aligned for T.
    const auto* const first = n == 0 ? nullptr : reinterpret_cast<const T*>(elements);
    return std::span<const T, Extent>(first, n);
  }
};

/// Packs arrays whose element type is not bitwise; other arrays are bitwise themselves. The number
/// of elements is not sent, because it is part of the type.
template <class T, std::size_t N>
  requires(!is_bitwise<T>)
struct packer<std::array<T, N>> {
  using parts = detail::types<T>;

  static void pack(writer& w, const std::array<T, N>& values) {
    for (const T& value : values)
      w(value);
  }

  static std::array<T, N> unpack(reader& r) {
    if constexpr (N > 16 && std::default_initializable<T> && std::is_move_assignable_v<T>) {
      std::array<T, N> values;
      for (T& value : values)
        value = r.read<T>();
      return values;
    } else {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        // Use braces, which guarantee that the elements are read in order.
        return std::array<T, N>{(static_cast<void>(I), r.read<T>())...};
      }(std::make_index_sequence<N>{});
    }
  }
};

namespace detail {

template <class Sequence>
struct sequence_packer {
  using value_type = typename Sequence::value_type;
  using parts = types<value_type>;

  static void pack(writer& w, const Sequence& values) { pack_range(w, values); }

  static Sequence unpack(reader& r) {
    const std::size_t n = unpack_count<value_type>(r);
    Sequence values;
    unpack_range<value_type>(r, n, [&](value_type&& value) { values.push_back(std::move(value)); });
    return values;
  }
};

template <sequence_container T>
struct standard_packer<T> : sequence_packer<T> {};

} // namespace detail

} // namespace farcall
