// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/reader.hpp>
#include <farcall/call/writer.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace farcall {

/// Packs each member separately, because libraries lay out pairs and tuples differently.
template <class First, class Second>
struct packer<std::pair<First, Second>> {
  using parts = detail::types<First, Second>;

  static void pack(writer& w, const std::pair<First, Second>& value) {
    w(value.first, value.second);
  }
  static std::pair<First, Second> unpack(reader& r) {
    // Use braces, which guarantee that the members are read in order.
    return std::pair<First, Second>{r.read<std::remove_cv_t<First>>(),
                                    r.read<std::remove_cv_t<Second>>()};
  }
};

template <class... T>
struct packer<std::tuple<T...>> {
  using parts = detail::types<T...>;

  static void pack(writer& w, const std::tuple<T...>& value) {
    std::apply([&](const T&... members) { w(members...); }, value);
  }
  static std::tuple<T...> unpack([[maybe_unused]] reader& r) {
    return std::tuple<T...>{r.read<std::remove_cv_t<T>>()...};
  }
};

} // namespace farcall
