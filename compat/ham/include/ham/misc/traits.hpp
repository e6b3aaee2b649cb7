#pragma once

#include <type_traits>

namespace ham {

/// True when all T... are fundamental types. Programs may specialise it; nothing depends on it.
template <class... T>
struct is_bitwise_copyable {
  static constexpr bool value = (is_bitwise_copyable<T>::value && ...);
};
template <class T>
struct is_bitwise_copyable<T> {
  static constexpr bool value = std::is_fundamental_v<T>;
};

/// Programs may specialise it; nothing depends on it.
template <class... T>
struct is_blocking {
  static constexpr bool value = (is_blocking<T>::value || ...);
};
template <class T>
struct is_blocking<T> {
  static constexpr bool value = false;
};

} // namespace ham
