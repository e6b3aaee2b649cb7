// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack_elements.hpp>
#include <farcall/call/standard_types.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace farcall {

/// Packer of a string view, which arrives as a view into the message.
template <class Char, class Traits>
struct packer<std::basic_string_view<Char, Traits>> {
  using parts = detail::types<Char>;
  static constexpr bool has_views = true;

  static void pack(writer& w, std::basic_string_view<Char, Traits> text) {
    detail::pack_count(w, text.size());
    w.bytes(text.data(), text.size() * sizeof(Char), alignof(Char));
  }

  static std::basic_string_view<Char, Traits> unpack(reader& r) {
    static constexpr Char nothing{};
    const std::size_t n = r.count(sizeof(Char));
    const std::byte* const text = r.bytes(n * sizeof(Char), alignof(Char));
    // The pointer is never null, because some functions require a valid pointer even if the length
    // is 0.
    return {n == 0 ? &nothing : reinterpret_cast<const Char*>(text), n};
  }
};

template <class Char, class Traits, class Allocator>
struct packer<std::basic_string<Char, Traits, Allocator>> {
  using parts = detail::types<Char>;
  using view = std::basic_string_view<Char, Traits>;

  static void pack(writer& w, const std::basic_string<Char, Traits, Allocator>& text) {
    packer<view>::pack(w, text);
  }
  static std::basic_string<Char, Traits, Allocator> unpack(reader& r) {
    return std::basic_string<Char, Traits, Allocator>(packer<view>::unpack(r));
  }
};

namespace detail {

/// Packs the path unchanged in the native format. The program decides what the path means on the
/// other node.
template <path_class T>
struct standard_packer<T> {
  using parts = types<>;

  static void pack(writer& w, const T& path) { w(path.native()); }
  static T unpack(reader& r) { return {r.read<typename T::string_type>(), T::native_format}; }
};

} // namespace detail

} // namespace farcall
