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

/// Mangled name of a type.
template <class T>
[[nodiscard]] const char* type_name() noexcept {
#ifdef __GXX_RTTI
  return typeid(T).name();
#else
#error "farcall knows callables by the names of their types: compile without -fno-rtti"
  return "";
#endif
}

/// Standard libraries put other things into classes of one name, as into std::variant.
#ifdef _LIBCPP_VERSION
inline constexpr std::string_view library_mark = "(libc++)";
#else
inline constexpr std::string_view library_mark;
#endif

/// What holds values of one type and nothing else is as fixed as that type.
template <class T>
struct only_holds : std::type_identity<T> {};
template <complex_number T>
struct only_holds<T> : only_holds<typename T::value_type> {};
template <class T, std::size_t N>
struct only_holds<std::array<T, N>> : only_holds<T> {};

/// Formats of long double differ between machines that agree on its size. Members cannot be looked
/// at, but whoever has such a member is aligned as it is.
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
    // The mark of a type of one source file, which not every library takes away.
    std::string result(name.substr(name.starts_with('*') ? 1 : 0));
    result += '|';
    append_layouts(result, types<Result, Arguments...>{});
    return result;
  }
};

template <class Result, class... Arguments>
struct signature_writer<Result(Arguments...) noexcept> : signature_writer<Result(Arguments...)> {};

} // namespace detail

/// The text by which two programs tell whether they mean the same by a function of type
/// `Signature`, R(Arguments...), noexcept or not: the type's name in the Itanium ABI, and what the
/// name does not tell, the layout of the result and of each argument. "FddE|8:8,8:8" is
/// double(double).
///
/// Layouts are size:alignment of a bitwise type, "-" for void, "own" for a type with its own
/// packer, and {…} around the types that a container or tuple is made of. What may be or hold a
/// long double adds "m" and the bits of its mantissa, a class "(libc++)" where that is the library,
/// a remote_span ">" and the layout of its elements. g++ and clang++ give the same text.
template <class Signature>
[[nodiscard]] std::string signature_text() {
  return detail::signature_writer<Signature>::text();
}

/// The same for a callable of type F with that signature: what it holds is sent too. Adds ";" and
/// its layout.
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
