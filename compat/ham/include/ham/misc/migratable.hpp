// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/traits.hpp>

#include <type_traits>
#include <utility>

namespace ham {

/// Type in which a value of type T is sent. By default, farcall packs the value. A program may
/// specialise this template for T, and the bytes of the specialisation are then sent. The
/// specialisation must be copyable, constructible from the caller's argument, and convertible to T.
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

/// A migratable<T> is bitwise copyable if T is bitwise copyable.
template <class T>
struct is_bitwise_copyable<migratable<T>> {
  static constexpr bool value = is_bitwise_copyable<T>::value;
};

} // namespace ham
