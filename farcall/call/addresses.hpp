// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/standard_types.hpp>

#include <compare>
#include <coroutine>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>

namespace farcall::detail {

template <class T>
inline constexpr bool is_address_holder = false;
template <wrapped_reference T>
inline constexpr bool is_address_holder<T> = true;
template <categorised_error T>
inline constexpr bool is_address_holder<T> = true;
template <atomic_reference T>
inline constexpr bool is_address_holder<T> = true;
template <place_in_source T>
inline constexpr bool is_address_holder<T> = true;
template <resource_allocator T>
inline constexpr bool is_address_holder<T> = true;
template <class T>
inline constexpr bool is_address_holder<std::initializer_list<T>> = true;
template <class T>
inline constexpr bool is_address_holder<std::coroutine_handle<T>> = true;
template <>
inline constexpr bool is_address_holder<std::type_index> = true;

/// True if a class is an instance of a class template with a pointer among its template arguments.
/// Such a class may hold a pointer of that type, like the results of std::mem_fn() and
/// std::not_fn(). holds_address uses this only for classes of the standard library.
template <class T>
inline constexpr bool is_made_for_pointers = false;
template <template <class...> class C, class... T>
inline constexpr bool is_made_for_pointers<C<T...>> =
    // NOLINTNEXTLINE(misc-redundant-expression): of different types
    ((std::is_pointer_v<T> || std::is_member_pointer_v<T>) || ...);

/// True for trivially copyable types that are known to hold an address of this process, namely
/// pointers, iterators, views, and some standard classes.
template <class T>
inline constexpr bool holds_address =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || is_address_holder<T> ||
    std::input_or_output_iterator<T> || std::ranges::enable_view<T> ||
    (is_made_for_pointers<T> && standard_class<T> && !std::is_empty_v<T>);

/// Value from which any member of an aggregate can be initialised, except a nested aggregate. If it
/// is given for a nested aggregate, the compiler initialises the members of that aggregate one by
/// one (brace elision).
struct any_member {
  template <class T>
    requires(!std::is_aggregate_v<T> || std::is_empty_v<T>)
  operator T() const noexcept; // NOLINT(google-explicit-constructor)
};
struct pointer_member {
  template <class T>
    requires(std::is_pointer_v<T> || std::is_member_pointer_v<T>)
  operator T() const noexcept; // NOLINT(google-explicit-constructor)
};
/// Type from which no member of an aggregate can be initialised, except a member with a constructor
/// for arguments of any type.
struct strange_member {};

template <class T, class Last, std::size_t... I>
consteval bool has_member_for(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), any_member{})..., Last{}}; };
}

/// Maximum number of members that are examined. Each element of an array counts as one.
inline constexpr std::size_t max_members_seen = 24;

/// True if there is a pointer among the members of the aggregate T from index I on. The members of
/// a nested aggregate count as members of T.
template <class T, std::size_t I = 0>
consteval bool has_pointer_member() {
  using before = std::make_index_sequence<I>;
  if constexpr (I == max_members_seen || !has_member_for<T, any_member>(before{})) {
    return false;
  } else if constexpr (has_member_for<T, pointer_member>(before{}) &&
                       !has_member_for<T, strange_member>(before{})) {
    return true;
  } else {
    return has_pointer_member<T, I + 1>();
  }
}

} // namespace farcall::detail
