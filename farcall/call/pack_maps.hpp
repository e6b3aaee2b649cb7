// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack_elements.hpp>
#include <farcall/call/pack_tuples.hpp>
#include <farcall/call/standard_types.hpp>

#include <cstddef>
#include <utility>

namespace farcall::detail {

/// Type in which an element of a map is sent, without the const that maps add to their keys.
template <class T>
struct sent_element {
  using type = T;
};
template <class Key, class Value>
struct sent_element<std::pair<const Key, Value>> {
  using type = std::pair<Key, Value>;
};

/// Packs sets and maps of all kinds. Comparisons and hash functions are not sent; the receiver
/// default-constructs them.
template <class Container, class... Parts>
struct associative_packer {
  using parts = types<Parts...>;
  using element = typename sent_element<typename Container::value_type>::type;

  static void pack(writer& w, const Container& values) {
    pack_count(w, values.size());
    for (const auto& value : values)
      pack_element(w, value);
  }

  static Container unpack(reader& r) {
    const std::size_t n = r.count();
    Container values;
    if constexpr (requires { values.reserve(n); }) values.reserve(justified<element>(n, r));
    for (std::size_t i = 0; i != n; ++i)
      values.insert(values.end(), unpack_element<element>(r));
    if (values.size() != n) throw_malformed("a set or map in which a key is repeated");
    return values;
  }
};

template <associative_container T>
struct standard_packer<T> : associative_packer<T, typename T::key_type> {};

template <map_container T>
struct standard_packer<T> : associative_packer<T, typename T::key_type, typename T::mapped_type> {};

} // namespace farcall::detail
