// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/native/register_call.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

/// Placement of arguments in registers and on the stack, as the processor's calling convention
/// says.
namespace farcall::native {

/// Classes of types that the calling conventions distinguish. A structure that fits one word has
/// the class of the register in which it is passed. Types of the class `wide` do not fit one
/// register, such as larger structures, long double and complex numbers. The class `unknown` is for
/// types of which the debug information says nothing.
enum class value_class : std::uint8_t {
  unknown,
  none, // void
  sint8,
  sint16,
  sint32,
  integer64, // pointers and references too
  uint8,
  uint16,
  uint32,
  boolean,
  real32,
  real64,
  wide
};

/// Rules of calling conventions.
namespace convention {

/// Returns the number of upper bits of a 64-bit word that are not part of a value of this class.
constexpr unsigned unused_bits(value_class kind) noexcept {
  switch (kind) {
  case value_class::sint8:
  case value_class::uint8:
  case value_class::boolean:
    return 56;
  case value_class::sint16:
  case value_class::uint16:
    return 48;
  case value_class::sint32:
  case value_class::uint32:
  case value_class::real32:
    return 32;
  default:
    return 0;
  }
}

inline constexpr std::size_t class_count = static_cast<std::size_t>(value_class::wide) + 1;

inline constexpr auto unused_bits_of = [] {
  std::array<std::uint8_t, class_count> all{};
  for (std::size_t index = 0; index < all.size(); ++index) {
    all[index] = static_cast<std::uint8_t>(unused_bits(static_cast<value_class>(index)));
  }
  return all;
}();

constexpr bool is_signed(value_class kind) noexcept {
  return kind >= value_class::sint8 && kind <= value_class::sint32;
}
static_assert(is_signed(value_class::sint16) && !is_signed(value_class::uint8));

/// True if reals that find no free float register are passed in integer registers, and if integers
/// of 32 bits are extended by their sign even if they have none. Both are rules of RISC-V.
#if defined(__riscv)
inline constexpr bool is_riscv = true;
#else
inline constexpr bool is_riscv = false;
#endif

} // namespace convention

/// Extends the value in a word to 64 bits, by its sign or by zeros. A real is extended by zeros.
/// The extension uses shifts, because branches on a class that differs between arguments are slow.
[[nodiscard]] inline std::uint64_t widened(value_class kind, std::uint64_t word) noexcept {
  const unsigned shift = convention::unused_bits_of[static_cast<std::size_t>(kind)];
  const std::uint64_t top = word << shift;
  const std::uint64_t value =
      convention::is_signed(kind)
          ? static_cast<std::uint64_t>(static_cast<std::int64_t>(top) >> shift)
          : top >> shift;
  return kind == value_class::boolean ? static_cast<std::uint64_t>(value != 0) : value;
}

/// Returns true for the classes of values that are passed in float registers.
[[nodiscard]] constexpr bool is_real(value_class kind) noexcept {
  return kind == value_class::real32 || kind == value_class::real64;
}

/// Places the arguments of one call in a register image, in their order. Used by one thread.
class argument_placer {
 public:
  /// Places arguments in `image`, and in `stack` if they are passed on the stack. `stack` has
  /// space for all arguments.
  argument_placer(register_image& image, std::uint64_t* stack) noexcept
      : image_(image), stack_(stack) {}

  /// Places the next argument, a value of this class in the low bits of a word. Other bits of the
  /// word have no effect.
  void add(value_class kind, std::uint64_t word) noexcept {
    if (is_real(kind)) {
      if (kind == value_class::real32) word &= lower_half;
      if (floats_ < float_registers) {
        image_.floats[floats_++] = in_float_register(kind, word);
        return;
      }
      if (!convention::is_riscv) {
        stack_[stacked_++] = word;
        return;
      }
    } else {
      const bool has_sign = convention::is_riscv && kind == value_class::uint32;
      word = widened(has_sign ? value_class::sint32 : kind, word);
    }
    if (integers_ < integer_registers) {
      image_.integers[integers_++] = word;
    } else {
      stack_[stacked_++] = word;
    }
  }

  /// Sets the remaining members of the image that describe its arguments.
  void finish() noexcept {
    image_.floats_used = floats_;
    image_.stack = stack_;
    image_.stack_words = stacked_;
  }

 private:
  static constexpr std::uint64_t lower_half = 0xffff'ffff;

  static std::uint64_t in_float_register([[maybe_unused]] value_class kind,
                                         std::uint64_t word) noexcept {
    // RISC-V sets the upper bits of a register that contains a float of 32 bits.
    return convention::is_riscv && kind == value_class::real32 ? word | ~lower_half : word;
  }

  register_image& image_;
  std::uint64_t* stack_;
  std::size_t integers_ = 0;
  std::size_t floats_ = 0;
  std::size_t stacked_ = 0;
};

/// Returns the result of a call, a value of this class, in the low bits of a word. The other bits
/// are as in widened(). Returns 0 for a function without a result.
[[nodiscard]] inline std::uint64_t result_word(value_class kind,
                                               const register_image& image) noexcept {
  if (kind == value_class::none) return 0;
  return widened(kind, is_real(kind) ? image.float_result : image.integer_result);
}

} // namespace farcall::native
