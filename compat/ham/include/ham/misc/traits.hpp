// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace ham {

/// True if each of the types T... is a fundamental type, or a ham::migratable or ham::function of
/// such types. Programs may use and specialise this trait; farcall does not use it.
template <class... T>
struct is_bitwise_copyable {
  static constexpr bool value = (is_bitwise_copyable<T>::value && ...);
};
template <class T>
struct is_bitwise_copyable<T> {
  static constexpr bool value = std::is_fundamental_v<T>;
};

/// True unless the program has specialised this trait as false for one of the types. Programs may
/// use and specialise this trait; farcall does not use it.
template <class... T>
struct is_blocking {
  static constexpr bool value = (is_blocking<T>::value && ...);
};
template <class T>
struct is_blocking<T> {
  static constexpr bool value = true;
};

} // namespace ham
