// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/addresses.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace farcall {

class writer;
class reader;

namespace detail {

/// Packers of the standard types that are recognised by their shape (standard_types.hpp). They are
/// no specialisations of packer, so that programs may add constrained specialisations of their own.
template <class T>
struct standard_packer {
  using no_packer = void;
};

} // namespace detail

/// Packs values of type T into bytes, and unpacks them. Programs specialise it to make their types
/// packable.
///
/// Trivially copyable types, which are sent by memcpy, and the standard types listed in pack.hpp
/// need no specialisation. For any other type, specialise packer next to the type, before the first
/// call that uses the type:
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
/// pack() runs twice and must write the same bytes both times. The first time, its bytes are only
/// counted. unpack() must read the same types in the same order. If unpack() reads past the end, or
/// leaves bytes of the message unread, the call throws malformed_message. The message is then read
/// a second time, to find the packer at fault. In this pass, the number of bytes that each unpack()
/// reads is compared with the number that pack() writes for the value.
///
/// pack(), unpack() and the destructor of a result run while a lane is held, so they must neither
/// call farcall nor wait.
///
/// Values of a type may refer into the bytes from which they were read, like a string_view. The
/// packer of such a type must have `static constexpr bool has_views = true;`, so that the bytes
/// outlive the call.
///
/// Pointers are detected only among the members of trivially copyable aggregates
/// (may_hold_pointers). In another class, or in a lambda's captures, a pointer arrives as the
/// sender's address. Also, a bool, enum or std::variant in a trivially copyable type has whatever
/// value the peer has sent. Specialise packer for such a type if that matters.
template <class T>
struct packer : detail::standard_packer<T> {};

/// True if a bitwise class has the same bytes on all nodes that agree on its size and alignment.
/// Other classes are refused in calls between programs with different standard libraries, because
/// members such as std::variant differ. Classes aligned to 16 and more, which may hold a long
/// double, are refused between different processors. Specialise this variable as true for a class
/// of yours that holds neither.
template <class T>
inline constexpr bool has_fixed_layout = !std::is_class_v<T> && !std::is_union_v<T>;

/// True if a trivially copyable aggregate may be sent although it has pointers among its members.
/// The pointers arrive as the sender's addresses. Specialise this variable as true for an aggregate
/// whose pointers the other node does not follow, but only returns or overwrites.
template <class T>
inline constexpr bool may_hold_pointers = false;

/// Maximum nesting of values (trees, lists by unique_ptr) on both sides. The limit keeps bytes from
/// a peer from exhausting the reader's stack.
inline constexpr std::size_t max_nesting = 1000;

/// Alignment of every message body, and the largest alignment of a value in it.
inline constexpr std::size_t body_alignment = 16;

namespace detail {

/// Type of the elements to which a handle to remote values refers. Both sides must define this type
/// alike.
template <class T>
struct refers_to {};

template <class... T>
struct types {};

template <class T>
inline constexpr bool has_packer = !requires { typename packer<T>::no_packer; };

/// True if T has a packer of a standard container or similar type. Such a packer has a member
/// `parts`, which lists the types of T's parts.
template <class T>
concept made_of_parts = requires { typename packer<T>::parts; };

/// True for a packer that belongs to the program, or to a class of the library.
template <class T>
inline constexpr bool has_own_packer = has_packer<T> && !made_of_parts<T>;

template <class T>
consteval bool holds_own_packers();

template <class... T>
consteval bool any_holds_own_packers(types<T...>) {
  return (holds_own_packers<std::remove_cv_t<T>>() || ...);
}

/// True if T, or a part of it, has a packer that is not the library's for standard types.
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

/// True for a trivially copyable aggregate that has a pointer among its members.
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

/// True for types that are sent by plain memcpy. Such a type is trivially copyable, has no packer,
/// and is not known to hold an address. `const T` counts as T for this and the following traits.
template <class T>
inline constexpr bool is_bitwise = detail::bitwise<std::remove_cv_t<T>>();

/// True for types whose values can be sent to another node. False for references and void.
template <class T>
inline constexpr bool is_packable_v = detail::packs<std::remove_cv_t<T>>();

/// Concept of types whose values can be sent to another node.
template <class T>
concept packable = is_packable_v<T>;

/// True for types that refer into the message after unpacking (string_view, span, containers of
/// these). The code that unpacks such a value must keep the message for as long as the value.
template <class T>
inline constexpr bool has_views = detail::refers_to_bytes<std::remove_cv_t<T>>();

/// Number of bytes that a bitwise T takes in a message; 0 for empty classes, such as captureless
/// lambdas.
template <class T>
  requires is_bitwise<T>
inline constexpr std::size_t packed_bytes =
    std::is_empty_v<T> || std::is_null_pointer_v<T> ? 0 : sizeof(T);

/// Alignment of a bitwise T in a message, relative to the beginning of the message.
template <class T>
  requires is_bitwise<T>
inline constexpr std::size_t packed_alignment = packed_bytes<T> == 0          ? 1
                                                : alignof(T) < body_alignment ? alignof(T)
                                                                              : body_alignment;

} // namespace farcall
