// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/reader.hpp>
#include <farcall/call/standard_types.hpp>
#include <farcall/call/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace farcall {

/// Format of a packed optional value: a flag (one byte), and after it the value, if there is one.
template <class T>
struct packer<std::optional<T>> {
  using parts = detail::types<T>;

  static void pack(writer& w, const std::optional<T>& value) {
    w(value.has_value());
    if (value) w(*value);
  }
  static std::optional<T> unpack(reader& r) {
    if (!r.read<bool>()) return std::nullopt;
    return std::optional<T>(std::in_place, r.read<std::remove_cv_t<T>>());
  }
};

namespace detail {

/// Format of a packed unique_ptr: a flag (one byte), and after it the object, if there is one.
/// Polymorphic classes are refused, because only their base would arrive.
template <plain_unique_owner T>
  requires(!std::is_polymorphic_v<typename T::element_type>)
struct standard_packer<T> {
  using element = typename T::element_type;
  using parts = types<element>;

  static void pack(writer& w, const T& value) {
    w(value != nullptr);
    if (value) w(*value);
  }
  static T unpack(reader& r) {
    if (!r.read<bool>()) return nullptr;
    return T(new element(r.read<std::remove_cv_t<element>>()));
  }
};

} // namespace detail

/// Format of a packed variant: the index (two bytes), and after it the value.
template <class... T>
  requires(sizeof...(T) < UINT16_MAX)
struct packer<std::variant<T...>> {
  using parts = detail::types<T...>;

  static void pack(writer& w, const std::variant<T...>& value) {
    if (value.valueless_by_exception()) detail::throw_valueless_variant();
    w(static_cast<std::uint16_t>(value.index()));
    std::visit([&](const auto& alternative) { w(alternative); }, value);
  }

  static std::variant<T...> unpack(reader& r) {
    const std::size_t index = r.number<std::uint16_t>();
    if (index >= sizeof...(T)) {
      detail::throw_out_of_range("the index of a std::variant", index, sizeof...(T));
    }
    return alternative<0>(r, index);
  }

 private:
  template <std::size_t I>
  static std::variant<T...> alternative(reader& r, std::size_t index) {
    if constexpr (I + 1 < sizeof...(T)) {
      if (index != I) return alternative<I + 1>(r, index);
    }
    using chosen = std::variant_alternative_t<I, std::variant<T...>>;
    return std::variant<T...>(std::in_place_index<I>, r.read<std::remove_cv_t<chosen>>());
  }
};

} // namespace farcall
