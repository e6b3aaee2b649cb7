#pragma once

#include <farcall/call/addresses.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace farcall {

class writer;
class reader;

namespace detail {

/// Packers of the standard's types that are recognised by their shape (standard_types.hpp). Not
/// specialisations of packer, so that programs may add constrained ones of their own.
template <class T>
struct standard_packer {
  using no_packer = void;
};

} // namespace detail

/// How values of type T become bytes and values again: the customisation point of farcall.
///
/// Not needed for trivially copyable types, which are sent by memcpy, nor for the standard types
/// listed in pack.hpp. For any other type, specialise it beside the type, before the first call
/// that uses it:
///
///     template <>
///     struct farcall::packer<person> {
///       static void pack(farcall::writer& w, const person& p) { w(p.name, p.age); }
///       static person unpack(farcall::reader& r) {
///         auto name = r.read<std::string>();
///         return {std::move(name), r.read<int>()};
///       }
///     };
///
/// pack() runs twice, once to count the bytes, and must write the same bytes both times. unpack()
/// reads the same types in the same order; reading past the end throws malformed_message, and so
/// does a call whose message is not read to its end. When a message turns out to be malformed it is
/// read a second time, and what was read is counted with pack(), to find the packer at fault.
/// These functions, and the destructor of a result, run while a lane is held: they must not call
/// farcall, nor wait for anything.
/// A type whose values refer into the bytes that they were read from (as string_view does) adds
/// `static constexpr bool has_views = true;`, so that the bytes outlive the call.
///
/// Of the members of a trivially copyable type only pointers are looked for, and only in aggregates
/// (may_hold_pointers): one in another class, or in what a lambda captures, arrives as the sender's
/// number, and a bool, enum or std::variant in it is whatever the peer sent. Give such a type a
/// packer when that matters.
template <class T>
struct packer : detail::standard_packer<T> {};

/// Whether a bitwise class has the same bytes wherever its size and alignment are the same. Between
/// programs of different standard libraries, calls with other classes are refused, because members
/// such as std::variant differ; between processors, calls with classes aligned to 16 and more,
/// which may hold a long double. Specialise it as true for a class of yours that holds neither.
template <class T>
inline constexpr bool has_fixed_layout = !std::is_class_v<T> && !std::is_union_v<T>;

/// Whether an aggregate that is trivially copyable travels with the pointers among its members,
/// which arrive as the sender's numbers. Else it does not travel. Specialise it as true for one
/// whose pointers the other node does not follow, but hands back or sets anew.
template <class T>
inline constexpr bool may_hold_pointers = false;

/// How deep values may nest inside one another (trees, lists by unique_ptr), on both sides, so that
/// bytes from a peer cannot exhaust the stack of the reader.
inline constexpr std::size_t max_nesting = 1000;

/// Alignment that every message body has, and the most that anything in it can be aligned to.
inline constexpr std::size_t body_alignment = 16;

namespace detail {

/// Handles of values that lie elsewhere name the type of these, which both sides must see alike.
template <class T>
struct refers_to {};

template <class... T>
struct types {};

template <class T>
inline constexpr bool has_packer = !requires { typename packer<T>::no_packer; };

/// Packers of std containers and the like name the types that they are made of.
template <class T>
concept made_of_parts = requires { typename packer<T>::parts; };

/// A packer of the program's, or of a class of the library's.
template <class T>
inline constexpr bool has_own_packer = has_packer<T> && !made_of_parts<T>;

template <class T>
consteval bool holds_own_packers();

template <class... T>
consteval bool any_holds_own_packers(types<T...>) {
  return (holds_own_packers<std::remove_cv_t<T>>() || ...);
}

/// It, or what it is made of, has one.
template <class T>
consteval bool holds_own_packers() {
  if constexpr (!std::is_object_v<T> || !has_packer<T>) {
    return false;
  } else if constexpr (made_of_parts<T>) {
    return any_holds_own_packers(typename packer<T>::parts{});
  } else {
    return true;
  }
}

template <class T>
concept well_formed_packer = requires(writer& w, reader& r, const T& value) {
  packer<T>::pack(w, value);
  { packer<T>::unpack(r) } -> std::same_as<T>;
};

/// A trivially copyable aggregate with a pointer among its members.
template <class T>
consteval bool is_aggregate_of_pointers() {
  if constexpr (std::is_aggregate_v<T> && !std::is_array_v<T> && std::is_trivially_copyable_v<T> &&
                !may_hold_pointers<T>) {
    return has_pointer_member<T>();
  } else {
    return false;
  }
}

template <class T>
consteval bool bitwise() {
  if constexpr (!std::is_object_v<T> || std::is_array_v<T> || has_packer<T> || holds_address<T>) {
    return false;
  } else {
    return std::is_trivially_copyable_v<T> && std::is_move_constructible_v<T> &&
           !is_aggregate_of_pointers<T>();
  }
}

template <class T>
consteval bool packs();

template <class... T>
consteval bool all_packable(types<T...>) {
  return (packs<std::remove_cv_t<T>>() && ...);
}

template <class T>
consteval bool packs() {
  if constexpr (bitwise<T>()) {
    return true;
  } else if constexpr (!std::is_object_v<T> || !has_packer<T>) {
    return false;
  } else if constexpr (made_of_parts<T>) {
    return all_packable(typename packer<T>::parts{});
  } else {
    return well_formed_packer<T>;
  }
}

template <class T>
consteval bool refers_to_bytes();

template <class... T>
consteval bool any_refers(types<T...>) {
  return (refers_to_bytes<std::remove_cv_t<T>>() || ...);
}

template <class T>
consteval bool refers_to_bytes() {
  if constexpr (requires {
                  { packer<T>::has_views } -> std::convertible_to<bool>;
                }) {
    return packer<T>::has_views;
  } else if constexpr (made_of_parts<T>) {
    return any_refers(typename packer<T>::parts{});
  } else {
    return false;
  }
}

} // namespace detail

/// True for types that are sent by plain memcpy: trivially copyable, no packer of their own, and
/// not known to hold an address. `const T` counts as T here and below.
template <class T>
inline constexpr bool is_bitwise = detail::bitwise<std::remove_cv_t<T>>();

/// True for types whose values can be sent to another node. References and void cannot.
template <class T>
inline constexpr bool is_packable_v = detail::packs<std::remove_cv_t<T>>();

/// Types whose values can be sent to another node.
template <class T>
concept packable = is_packable_v<T>;

/// True for types that refer into the message after unpacking (string_view, span, containers of
/// these): whoever unpacks one keeps the bytes as long as the value.
template <class T>
inline constexpr bool has_views = detail::refers_to_bytes<std::remove_cv_t<T>>();

/// Bytes that a bitwise T takes in a message. Nothing for empty classes, such as captureless
/// lambdas.
template <class T>
  requires is_bitwise<T>
inline constexpr std::size_t packed_bytes =
    std::is_empty_v<T> || std::is_null_pointer_v<T> ? 0 : sizeof(T);

/// Alignment of a bitwise T in a message, relative to its beginning.
template <class T>
  requires is_bitwise<T>
inline constexpr std::size_t packed_alignment = packed_bytes<T> == 0          ? 1
                                                : alignof(T) < body_alignment ? alignof(T)
                                                                              : body_alignment;

} // namespace farcall
