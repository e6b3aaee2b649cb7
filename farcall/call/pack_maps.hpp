#pragma once

#include <farcall/call/pack_elements.hpp>
#include <farcall/call/pack_tuples.hpp>

#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace farcall {
namespace detail {

/// An element as it is sent: without the const that maps put on their keys.
template <class T>
struct sent_element {
  using type = T;
};
template <class Key, class Value>
struct sent_element<std::pair<const Key, Value>> {
  using type = std::pair<Key, Value>;
};

/// Sets and maps of all kinds. Orders and hash functions are not sent but made anew.
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

} // namespace detail

template <class Key, class... T>
struct packer<std::set<Key, T...>> : detail::associative_packer<std::set<Key, T...>, Key> {};

template <class Key, class... T>
struct packer<std::multiset<Key, T...>>
    : detail::associative_packer<std::multiset<Key, T...>, Key> {};

template <class Key, class... T>
struct packer<std::unordered_set<Key, T...>>
    : detail::associative_packer<std::unordered_set<Key, T...>, Key> {};

template <class Key, class... T>
struct packer<std::unordered_multiset<Key, T...>>
    : detail::associative_packer<std::unordered_multiset<Key, T...>, Key> {};

template <class Key, class Value, class... T>
struct packer<std::map<Key, Value, T...>>
    : detail::associative_packer<std::map<Key, Value, T...>, Key, Value> {};

template <class Key, class Value, class... T>
struct packer<std::multimap<Key, Value, T...>>
    : detail::associative_packer<std::multimap<Key, Value, T...>, Key, Value> {};

template <class Key, class Value, class... T>
struct packer<std::unordered_map<Key, Value, T...>>
    : detail::associative_packer<std::unordered_map<Key, Value, T...>, Key, Value> {};

template <class Key, class Value, class... T>
struct packer<std::unordered_multimap<Key, Value, T...>>
    : detail::associative_packer<std::unordered_multimap<Key, Value, T...>, Key, Value> {};

} // namespace farcall
