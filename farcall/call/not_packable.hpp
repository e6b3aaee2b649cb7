// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/packer.hpp>
#include <farcall/call/standard_types.hpp>

#include <span>
#include <type_traits>

namespace farcall {
namespace detail {

/// Reason why a type cannot be sent, as far as the type alone shows the reason.
enum class obstacle {
  reference,
  nothing,
  c_array,
  function_pointer,
  pointer,
  member_pointer,
  shared_ownership,
  polymorphic_owner,
  other_owner,
  mutable_span,
  span_of_packed,
  span_overaligned,
  address,
  pointer_member,
  bad_packer,
  bound_to_node,
  immovable,
  no_packer
};

/// True for handles of objects that stay on their node. The layer that defines such a handle
/// specialises this variable.
template <class T>
inline constexpr bool is_bound_to_node = false;

template <class T>
struct owner_obstacle : std::false_type {};
template <unique_owner T>
struct owner_obstacle<T> : std::true_type {
  static consteval obstacle why() {
    if constexpr (std::is_class_v<typename T::element_type>) {
      if (std::is_polymorphic_v<typename T::element_type>) return obstacle::polymorphic_owner;
    }
    return obstacle::other_owner;
  }
};

template <class T>
struct span_obstacle : std::false_type {};
template <class T, std::size_t Extent>
struct span_obstacle<std::span<T, Extent>> : std::true_type {
  static consteval obstacle why() {
    if (!std::is_const_v<T>) return obstacle::mutable_span;
    if (!is_bitwise<T>) return obstacle::span_of_packed;
    return obstacle::span_overaligned;
  }
};

template <class T>
consteval obstacle why_not() {
  if constexpr (std::is_reference_v<T>) {
    return obstacle::reference;
  } else if constexpr (std::is_void_v<T>) {
    return obstacle::nothing;
  } else if constexpr (std::is_array_v<T>) {
    return obstacle::c_array;
  } else if constexpr (std::is_function_v<std::remove_pointer_t<T>>) {
    return obstacle::function_pointer;
  } else if constexpr (std::is_pointer_v<T>) {
    return obstacle::pointer;
  } else if constexpr (std::is_member_pointer_v<T>) {
    return obstacle::member_pointer;
  } else if constexpr (has_packer<T>) {
    return obstacle::bad_packer;
  } else if constexpr (shared_owner<T>) {
    return obstacle::shared_ownership;
  } else if constexpr (owner_obstacle<T>::value) {
    return owner_obstacle<T>::why();
  } else if constexpr (span_obstacle<T>::value) {
    return span_obstacle<T>::why();
  } else if constexpr (holds_address<T>) {
    return obstacle::address;
  } else if constexpr (is_aggregate_of_pointers<T>()) {
    return obstacle::pointer_member;
  } else if constexpr (is_bound_to_node<T>) {
    return obstacle::bound_to_node;
  } else if constexpr (!std::is_move_constructible_v<T>) {
    return obstacle::immovable;
  } else {
    return obstacle::no_packer;
  }
}

/// True unless T cannot be sent for the reason `What`. It is a variable template of T rather than
/// an expression, because clang++ then prints it, and with it the type T, when the assertion fails.
template <class T, obstacle What>
inline constexpr bool is_free_of = why_not<T>() != What;

} // namespace detail

/// The compile error for a type that cannot be sent. T is the type at fault. Exactly one of the
/// assertions fails, and its text says what to do instead.
template <class T>
struct not_packable {
  static constexpr detail::obstacle why = detail::why_not<T>();

  static_assert(detail::is_free_of<T, detail::obstacle::reference>,
                "farcall: a reference cannot be sent: the other node would change a copy. Take the "
                "parameter by value or by const T&, return what has changed, or pass a "
                "farcall::remote_span of memory on that node.");
  static_assert(detail::is_free_of<T, detail::obstacle::nothing>,
                "farcall: void is not a value that can be sent.");
  static_assert(detail::is_free_of<T, detail::obstacle::c_array>,
                "farcall: a C array cannot be sent: pass a std::array, a std::span<const T>, or a "
                "std::string_view for text.");
  static_assert(
      detail::is_free_of<T, detail::obstacle::function_pointer>,
      "farcall: a pointer to a function cannot be sent as an argument: name the function in "
      "the call itself, or pass a value from which the other node chooses it.");
  static_assert(detail::is_free_of<T, detail::obstacle::pointer>,
                "farcall: a raw pointer cannot be sent: it means nothing on another node. Pass the "
                "value, a std::span<const T> or std::string_view (arrives as a view), or a "
                "farcall::remote_span of memory on that node.");
  static_assert(detail::is_free_of<T, detail::obstacle::member_pointer>,
                "farcall: a pointer to a member cannot be sent: different programs number members "
                "differently. Pass a value from which the other node chooses the member.");
  static_assert(detail::is_free_of<T, detail::obstacle::shared_ownership>,
                "farcall: shared ownership cannot reach across nodes: pass the value itself, or a "
                "std::unique_ptr to it.");
  static_assert(detail::is_free_of<T, detail::obstacle::polymorphic_owner>,
                "farcall: a std::unique_ptr to a polymorphic class cannot be sent: the class of "
                "the object behind it is known only at run time. Pass a std::variant of the "
                "possible classes, or specialise farcall::packer for this std::unique_ptr.");
  static_assert(detail::is_free_of<T, detail::obstacle::other_owner>,
                "farcall: only a plain std::unique_ptr<T> can be sent, to one object and with the "
                "default deleter. Pass a std::vector for an array, or the value itself.");
  static_assert(
      detail::is_free_of<T, detail::obstacle::mutable_span>,
      "farcall: a std::span that can be written through cannot be sent: the other node would "
      "write to a copy. Pass a std::span<const T>, or a farcall::remote_span of memory on "
      "that node.");
  static_assert(detail::is_free_of<T, detail::obstacle::span_of_packed>,
                "farcall: a std::span of this type cannot be sent: a view needs elements that are "
                "copied byte by byte. Pass a std::vector.");
  static_assert(
      detail::is_free_of<T, detail::obstacle::span_overaligned>,
      "farcall: a std::span of a type aligned to more than 16 bytes cannot be sent: messages "
      "are aligned to 16. Pass a std::vector.");
  static_assert(
      detail::is_free_of<T, detail::obstacle::address>,
      "farcall: this type refers to memory of this node and cannot be sent: pass the values "
      "themselves, for example in a std::vector, or specialise farcall::packer for it.");
  static_assert(detail::is_free_of<T, detail::obstacle::pointer_member>,
                "farcall: a member of this type is a pointer, which means nothing on another node: "
                "make it a value, a std::vector or a farcall::remote_span, or specialise "
                "farcall::packer for the type. If the other node does not follow the pointer, "
                "specialise farcall::may_hold_pointers.");
  static_assert(detail::is_free_of<T, detail::obstacle::bad_packer>,
                "farcall: the farcall::packer of this type does not fit: it needs `static void "
                "pack(farcall::writer&, const T&)` and `static T unpack(farcall::reader&)`.");
  static_assert(detail::is_free_of<T, detail::obstacle::bound_to_node>,
                "farcall: a buffer, future or lane stays where it is: pass buffer.span(), or the "
                "result of the future.");
  static_assert(detail::is_free_of<T, detail::obstacle::immovable>,
                "farcall: this type can be neither copied nor moved, so it cannot be sent (has it "
                "a std::mutex or std::atomic?). Pass the values themselves.");
  static_assert(detail::is_free_of<T, detail::obstacle::no_packer>,
                "farcall: this type cannot be sent: it is not trivially copyable and has no "
                "packer. Specialise farcall::packer for it, with `static void "
                "pack(farcall::writer&, const T&)` and `static T unpack(farcall::reader&)`; see "
                "farcall/call/packer.hpp.");
};

namespace detail {

// The following functions return auto, so that the compiler instantiates them where they are used.
// clang++ instantiates other functions at the end of the file, and its error then names no line of
// the program.

template <class T>
constexpr auto require_one();

template <class... T>
constexpr auto require_parts(types<T...>) {
  (require_one<std::remove_cv_t<T>>(), ...);
}

template <class T>
constexpr auto require_one() {
  if constexpr (packs<T>()) {
    return;
  } else if constexpr (std::is_object_v<T> && made_of_parts<T>) {
    // T consists of parts, and could be sent if all its parts could. Report the part that cannot be
    // sent, because the type of this part has to be changed.
    require_parts(typename packer<T>::parts{});
  } else {
    static_cast<void>(not_packable<T>::why);
  }
}

} // namespace detail

/// Fails to compile, with one readable error, for each type T that cannot be sent or has a part
/// that cannot be sent. To avoid further errors, exclude the code that would not compile:
///
///     if constexpr ((packable<Arguments> && ...)) { ... } else { require_packable<Arguments...>();
///     }
template <class... T>
constexpr auto require_packable() {
  (detail::require_one<std::remove_cv_t<T>>(), ...);
}

} // namespace farcall
