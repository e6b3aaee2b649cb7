// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/migratable.hpp>

#include <farcall/call/pack.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace ham::detail {

template <class T>
concept is_specialised = !requires { typename migratable<T>::is_not_specialised; };

/// True if farcall can pack values of type T and the program has not specialised migratable for T.
template <class T>
inline constexpr bool is_packed_as_it_is = !is_specialised<T> && farcall::is_packable_v<T>;

/// Packs the bytes of an object as HAM does. The object can have any type, even a class with
/// virtual functions.
template <class T>
void pack_image(farcall::writer& w, const T& value) {
  w.bytes(&value, sizeof(T), std::min(alignof(T), farcall::body_alignment));
}

/// Makes an object from the bytes that pack_image() has packed, by the copy constructor, or by the
/// move constructor if the type cannot be copied. The constructor sets members that depend on the
/// process, such as the pointer to the vtable. The C++ standard does not treat these bytes as an
/// object, but this use of them works with the Itanium ABI, and programs written for HAM rely on
/// it.
template <class T>
[[nodiscard]] T unpack_image(farcall::reader& r) {
  static_assert(std::is_move_constructible_v<T>, "ham: a value that is sent must be movable");
  alignas(T) std::byte image[sizeof(T)];
  std::memcpy(image, r.bytes(sizeof(T), std::min(alignof(T), farcall::body_alignment)), sizeof(T));
  if constexpr (std::is_copy_constructible_v<T>) {
    return T(*std::launder(reinterpret_cast<const T*>(image)));
  } else {
    return T(std::move(*std::launder(reinterpret_cast<T*>(image))));
  }
}

} // namespace ham::detail

template <class T>
  requires(!std::is_trivially_copyable_v<ham::migratable<T>>)
struct farcall::packer<ham::migratable<T>> {
  static void pack(writer& w, const ham::migratable<T>& m) {
    if constexpr (ham::detail::is_packed_as_it_is<T>) {
      w(static_cast<const T&>(m));
    } else {
      ham::detail::pack_image(w, m);
    }
  }
  static ham::migratable<T> unpack(reader& r) {
    if constexpr (ham::detail::is_packed_as_it_is<T>) {
      return ham::migratable<T>(r.read<T>());
    } else {
      return ham::detail::unpack_image<ham::migratable<T>>(r);
    }
  }
};
