#pragma once

#include <type_traits>

namespace ham {

/// True when all T... are fundamental types, or what HAM makes of them. Programs may specialise it;
/// nothing depends on it.
template <class... T>
struct is_bitwise_copyable {
  static constexpr bool value = (is_bitwise_copyable<T>::value && ...);
};
template <class T>
struct is_bitwise_copyable<T> {
  static constexpr bool value = std::is_fundamental_v<T>;
};

/// True where no T says that it does not block. Programs may specialise it; nothing depends on it.
template <class... T>
struct is_blocking {
  static constexpr bool value = (is_blocking<T>::value && ...);
};
template <class T>
struct is_blocking<T> {
  static constexpr bool value = true;
};

} // namespace ham
