// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack.hpp>
#include <farcall/call/standard_types.hpp>

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>

namespace farcall {
namespace detail {

/// Returns the mangled name of a type.
template <class T>
[[nodiscard]] const char* type_name() noexcept {
#ifdef __GXX_RTTI
  return typeid(T).name();
#else
#error "farcall knows callables by the names of their types: compile without -fno-rtti"
  return "";
#endif
}

/// Text that marks the standard library, because libraries lay out classes of the same name
/// differently.
#ifdef _LIBCPP_VERSION
inline constexpr std::string_view library_mark = "(libc++)";
#else
inline constexpr std::string_view library_mark;
#endif

/// The type of which the values of T consist if there is only one such type, else T itself. For
/// example, a std::array of double consists of double. If the layout of that type is fixed, the
/// layout of T is fixed, too.
template <class T>
struct only_holds : std::type_identity<T> {};
template <complex_number T>
struct only_holds<T> : only_holds<typename T::value_type> {};
template <class T, std::size_t N>
struct only_holds<std::array<T, N>> : only_holds<T> {};

/// True if T may contain a long double, whose format differs between machines that agree on its
/// size. The members of a class cannot be examined. A class counts if it is aligned at least like a
/// long double, because it is aligned at least like each of its members.
template <class T>
inline constexpr bool may_hold_long_double =
    std::is_same_v<T, long double> || (!has_fixed_layout<T> && alignof(T) >= alignof(long double));

template <class T>
void append_layout(std::string& text);

template <class... T>
void append_layouts(std::string& text, types<T...>) {
  std::string_view separator;
  ((text.append(separator), append_layout<T>(text), separator = ","), ...);
}

template <class T>
void append_layout(std::string& text) {
  using value_type = std::remove_cvref_t<T>;
  if constexpr (std::is_void_v<value_type>) {
    text += '-';
  } else if constexpr (is_bitwise<value_type>) {
    using held = typename only_holds<value_type>::type;
    text += std::to_string(sizeof(value_type)) + ':' + std::to_string(alignof(value_type));
    if constexpr (may_hold_long_double<held>) {
      text += 'm' + std::to_string(std::numeric_limits<long double>::digits);
    }
    if constexpr (requires { typename refers_to<value_type>::type; }) {
      text += '>';
      append_layout<typename refers_to<value_type>::type>(text);
    } else if constexpr (!has_fixed_layout<held> && !std::is_empty_v<held>) {
      text += library_mark;
    }
  } else if constexpr (made_of_parts<value_type>) {
    text += '{';
    append_layouts(text, typename packer<value_type>::parts{});
    text += '}';
  } else {
    text += "own";
  }
}

template <class Signature>
struct signature_writer;

template <class Result, class... Arguments>
struct signature_writer<Result(Arguments...)> {
  static std::string text() {
    const std::string_view name = type_name<Result(Arguments...)>();
    // Remove the '*' that marks a type of a single source file, because only some libraries keep it
    // in the name.
    std::string result(name.substr(name.starts_with('*') ? 1 : 0));
    result += '|';
    append_layouts(result, types<Result, Arguments...>{});
    return result;
  }
};

template <class Result, class... Arguments>
struct signature_writer<Result(Arguments...) noexcept> : signature_writer<Result(Arguments...)> {};

} // namespace detail

/// Returns a text from which two programs see that they mean the same function type. `Signature`
/// has the form R(Arguments...), noexcept or not. The text consists of the type's name in the
/// Itanium ABI, and of the layout of the result and of each argument. For example, it is
/// "FddE|8:8,8:8" for double(double).
///
/// The layout of a bitwise type has the form size:alignment. The layout of void is "-", and a type
/// with a packer of its own has "own". A container or tuple has the layouts of its parts in braces.
///
/// Some bitwise types have an addition. If the type is or may hold a long double, "m" and the
/// number of bits of its mantissa follow. If the type is a class without a fixed layout and the
/// standard library is libc++, "(libc++)" follows. A remote_span has ">" and the layout of its
/// elements. g++ and clang++ return the same text.
template <class Signature>
[[nodiscard]] std::string signature_text() {
  return detail::signature_writer<Signature>::text();
}

/// Returns the signature text for a callable of type F. If F has captures or members, which are
/// sent as well, the text ends with ";" and the layout of F.
template <class F, class Signature>
[[nodiscard]] std::string callable_text() {
  std::string text = signature_text<Signature>();
  if constexpr (!std::is_pointer_v<F> && !std::is_empty_v<F>) {
    text += ';';
    detail::append_layout<F>(text);
  }
  return text;
}

} // namespace farcall
