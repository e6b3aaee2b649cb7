#pragma once

#include <ham/misc/traits.hpp>

#include <type_traits>
#include <utility>

namespace ham {

/// A value on its way. Programs specialise it for types that they want to travel in a form of their
/// own: copyable, made from what the caller gives, convertible to T. What travels of such a
/// specialisation are its bytes. Without one, values travel as farcall's do.
template <class T>
class migratable {
 public:
  template <class C>
    requires std::is_convertible_v<C, T>
  migratable(C&& value) : value_(std::forward<C>(value)) {}
  operator const T&() const { return value_; }

  using is_not_specialised = void;

 private:
  T value_;
};

/// A migratable copies its bytes where its T does.
template <class T>
struct is_bitwise_copyable<migratable<T>> {
  static constexpr bool value = is_bitwise_copyable<T>::value;
};

} // namespace ham
