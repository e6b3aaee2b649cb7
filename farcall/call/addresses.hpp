#pragma once

#include <farcall/call/standard_types.hpp>

#include <compare>
#include <coroutine>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <typeindex>

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

/// True for the types that are known to hold an address of this process, though they are trivially
/// copyable: pointers, iterators, views, and some standard classes. Members of other classes cannot
/// be seen from here.
template <class T>
inline constexpr bool holds_address =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || is_address_holder<T> ||
    std::input_or_output_iterator<T> || std::ranges::enable_view<T>;

} // namespace farcall::detail
