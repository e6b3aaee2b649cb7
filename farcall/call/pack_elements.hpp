// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/reader.hpp>
#include <farcall/call/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

/// Common parts of the packers of containers. Format of a packed container: the number of elements
/// (8 bytes), and after it the elements. Elements of a bitwise type take sizeof(T) bytes each, like
/// in an array.
namespace farcall::detail {

template <class T>
inline constexpr std::size_t element_alignment =
    alignof(T) < body_alignment ? alignof(T) : body_alignment;

inline void pack_count(writer& w, std::size_t count) { w(static_cast<std::uint64_t>(count)); }

/// Packs an element separately. The element takes at least one byte, so that a valid number of
/// elements never exceeds the number of remaining bytes.
template <class T>
void pack_element(writer& w, const T& value) {
  const std::size_t before = w.size();
  w(value);
  if (w.size() == before) w(std::byte{0});
}

template <class T>
[[nodiscard]] T unpack_element(reader& r) {
  const std::size_t before = r.position();
  T value = r.read<T>();
  if (r.position() == before) static_cast<void>(r.bytes(1));
  return value;
}

/// Returns the number of elements for which memory is reserved at first. These elements take no
/// more memory than bytes remain in the message, whatever `count` a peer claims. The container
/// grows as further elements are read.
template <class T>
[[nodiscard]] std::size_t justified(std::size_t count, const reader& r) noexcept {
  const std::size_t most = r.remaining() / sizeof(T);
  return count < most ? count : most;
}

/// Packs the elements of a range of any type.
template <class Range>
void pack_range(writer& w, const Range& values) {
  using value_type = std::remove_cv_t<typename Range::value_type>;
  pack_count(w, values.size());
  for (const auto& value : values) {
    if constexpr (is_bitwise<value_type>) {
      w.bytes(&value, sizeof(value_type), element_alignment<value_type>);
    } else {
      pack_element<value_type>(w, value);
    }
  }
}

/// Reads the elements that pack_range() has written, one by one, and passes each element to `add`.
template <class T, class Add>
void unpack_range(reader& r, std::size_t count, Add add) {
  if constexpr (is_bitwise<T>) {
    const std::byte* const elements = r.bytes(count * sizeof(T), element_alignment<T>);
    for (std::size_t i = 0; i != count; ++i)
      add(load_bitwise<T>(elements + i * sizeof(T)));
  } else {
    for (std::size_t i = 0; i != count; ++i)
      add(unpack_element<T>(r));
  }
}

/// Returns the number of elements of type T, after checking it against the remaining bytes.
template <class T>
[[nodiscard]] std::size_t unpack_count(reader& r) {
  return r.count(is_bitwise<T> ? sizeof(T) : 1);
}

} // namespace farcall::detail
