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

/// Values that farcall takes as they are.
template <class T>
inline constexpr bool travels_as_it_is = !is_specialised<T> && farcall::is_packable_v<T>;

/// The bytes of any object, as HAM sent everything: pointers, and classes with virtual functions.
template <class T>
void pack_image(farcall::writer& w, const T& value) {
  w.bytes(&value, sizeof(T), std::min(alignof(T), farcall::body_alignment));
}

/// A copy made from the bytes of an object of the same class. The constructor sets what depends on
/// the process, such as the pointer to the virtual functions. By the letter of C++ these bytes are
/// no object; HAM's programs rely on it, and the Itanium ABI lets them.
template <class T>
[[nodiscard]] T unpack_image(farcall::reader& r) {
  static_assert(std::is_move_constructible_v<T>, "ham: what travels must be movable");
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
    if constexpr (ham::detail::travels_as_it_is<T>) {
      w(static_cast<const T&>(m));
    } else {
      ham::detail::pack_image(w, m);
    }
  }
  static ham::migratable<T> unpack(reader& r) {
    if constexpr (ham::detail::travels_as_it_is<T>) {
      return ham::migratable<T>(r.read<T>());
    } else {
      return ham::detail::unpack_image<ham::migratable<T>>(r);
    }
  }
};
