#pragma once

#include <farcall/call/pack.hpp>

#include <array>
#include <complex>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>

namespace farcall {
namespace detail {

/// Formats of long double differ between machines that agree on its size.
template <class T>
struct holds_long_double : std::is_same<T, long double> {};
template <class T>
struct holds_long_double<std::complex<T>> : holds_long_double<T> {};
template <class T, std::size_t N>
struct holds_long_double<std::array<T, N>> : holds_long_double<T> {};

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
    text += std::to_string(sizeof(value_type)) + ':' + std::to_string(alignof(value_type));
    if constexpr (holds_long_double<value_type>::value) {
      text += 'm' + std::to_string(std::numeric_limits<long double>::digits);
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
    const std::string_view name = typeid(Result(Arguments...)).name();
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
/// packer, and {…} around the types that a container or tuple is made of. long double adds "m" and
/// the bits of its mantissa. g++ and clang++ give the same text.
template <class Signature>
[[nodiscard]] std::string signature_text() {
  return detail::signature_writer<Signature>::text();
}

} // namespace farcall
