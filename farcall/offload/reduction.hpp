// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// Operations of reductions, which combine values of all nodes of a job of equals: job::reduce(),
/// job::all_reduce() and job::scan(). Any thread may use the operations of this header.
namespace farcall {

namespace detail {

/// Numbers of operations, by which nodes check that they use the same one. The C interface has the
/// same numbers.
enum class operation_code : std::uint8_t {
  user,
  sum,
  product,
  minimum,
  maximum,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or
};

/// Base class of the operations of this header.
template <operation_code Code>
struct operation {
  static constexpr operation_code code = Code;
};

} // namespace detail

/// Operation of a reduction that adds. Never fails.
struct sum : detail::operation<detail::operation_code::sum> {
  /// Returns the sum of two values.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left + right);
  }
};
/// Operation of a reduction that multiplies. Never fails.
struct product : detail::operation<detail::operation_code::product> {
  /// Returns the product of two values.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left * right);
  }
};
/// Operation of a reduction that returns the smaller value. If the values are equal, or one is not
/// a number, returns the left one. Never fails.
struct minimum : detail::operation<detail::operation_code::minimum> {
  /// Returns the smaller of two values.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return right < left ? right : left;
  }
};
/// Operation of a reduction that returns the larger value. If the values are equal, or one is not a
/// number, returns the left one. Never fails.
struct maximum : detail::operation<detail::operation_code::maximum> {
  /// Returns the larger of two values.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return left < right ? right : left;
  }
};
/// Operation of a reduction of integers that returns the bits that both values have. Never fails.
struct bit_and : detail::operation<detail::operation_code::bit_and> {
  /// Returns the bits that both values have.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left & right);
  }
};
/// Operation of a reduction of integers that returns the bits of both values. Never fails.
struct bit_or : detail::operation<detail::operation_code::bit_or> {
  /// Returns the bits that at least one value has.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left | right);
  }
};
/// Operation of a reduction of integers that returns the bits in which the values differ. Never
/// fails.
struct bit_xor : detail::operation<detail::operation_code::bit_xor> {
  /// Returns the bits that exactly one value has.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left ^ right);
  }
};
/// Operation of a reduction that returns 1 if neither value is 0, and otherwise 0. Never fails.
struct logical_and : detail::operation<detail::operation_code::logical_and> {
  /// Returns 1 if neither value is 0, otherwise 0.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left != T{} && right != T{});
  }
};
/// Operation of a reduction that returns 0 if both values are 0, and otherwise 1. Never fails.
struct logical_or : detail::operation<detail::operation_code::logical_or> {
  /// Returns 0 if both values are 0, otherwise 1.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& left, const T& right) const {
    return static_cast<T>(left != T{} || right != T{});
  }
};

namespace detail {

template <class T>
inline constexpr bool is_span = false;
template <class T, std::size_t Extent>
inline constexpr bool is_span<std::span<T, Extent>> = true;

} // namespace detail

/// A type whose values can be reduced. Nodes send the bytes of the values.
template <class T>
concept reducible =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_const_v<T> &&
    !detail::is_span<T> && alignof(T) <= alignof(std::max_align_t);

/// An operation of a reduction of values of type T: fc::sum and the like, or a callable of the
/// program. It is called with the value of the lower nodes first, and returns the combined value.
/// It must be associative, but need not be commutative.
template <class Operation, class T>
concept reduces =
    requires(Operation& f, const T& left, const T& right) { static_cast<T>(f(left, right)); };

namespace detail {

template <class Operation>
inline constexpr operation_code code_of = operation_code::user;
template <class Operation>
  requires std::is_same_v<decltype(Operation::code), const operation_code>
inline constexpr operation_code code_of<Operation> = Operation::code;

/// Number of an arithmetic type, by which nodes check that they use the same one: its size, plus 64
/// for signed and 128 for floating-point types. Other types have the number 0.
template <class T>
inline constexpr std::uint8_t type_code =
    !std::is_arithmetic_v<T>
        ? 0
        : static_cast<std::uint8_t>(sizeof(T) + (std::is_floating_point_v<T> ? 128
                                                 : std::is_signed_v<T>       ? 64
                                                                             : 0));

/// How collectives combine elements, of which they know only the size.
struct reduction {
  std::size_t element_size = 1;
  std::size_t alignment = 1;
  operation_code operation = operation_code::user;
  std::uint8_t type = 0; ///< a type_code
  /// Combines `count` elements of `to` with as many elements of `from`, and stores the results in
  /// `to`. The two must not overlap. If `from_is_left` is true, the elements of `from` are the left
  /// operands.
  void (*combine)(void* argument, const std::byte* from, std::byte* to, std::size_t count,
                  bool from_is_left) = nullptr;
  void* argument = nullptr;
};

/// Number of elements that a loop of constant length combines. Compilers vectorise such a loop
/// without further options.
inline constexpr std::size_t combined_at_once = 16;

template <bool FromIsLeft, class T, class Operation>
void combine_all(Operation& f, const T* __restrict from, T* __restrict to, std::size_t count) {
  const auto one = [&](std::size_t i) {
    to[i] = static_cast<T>(FromIsLeft ? f(from[i], to[i]) : f(to[i], from[i]));
  };
  std::size_t i = 0;
  for (; count - i >= combined_at_once; i += combined_at_once) {
    for (std::size_t k = 0; k < combined_at_once; ++k)
      one(i + k);
  }
  for (; i < count; ++i)
    one(i);
}

template <class T, class Operation>
void combine_elements(void* argument, const std::byte* from, std::byte* to, std::size_t count,
                      bool from_is_left) {
  Operation& f = *static_cast<Operation*>(argument);
  const T* const source = reinterpret_cast<const T*>(from);
  T* const result = reinterpret_cast<T*>(to);
  if (from_is_left) {
    combine_all<true>(f, source, result, count);
  } else {
    combine_all<false>(f, source, result, count);
  }
}

/// Returns how elements of type T are combined by `f`, which must live as long as the result.
template <class T, class Operation>
[[nodiscard]] reduction reduction_by(Operation& f) noexcept {
  return {sizeof(T), alignof(T), code_of<Operation>, type_code<T>, &combine_elements<T, Operation>,
          &f};
}

} // namespace detail
} // namespace farcall
