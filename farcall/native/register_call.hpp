// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Calls of functions whose types are known only at run time. The caller places the arguments in a
/// register image, and assembly code loads the registers and calls the function.
namespace farcall::native {

#if defined(__x86_64__) || defined(__aarch64__) ||                                                 \
    (defined(__riscv) && __riscv_xlen == 64 && defined(__riscv_float_abi_double))
/// True if this processor has assembly code for calls.
inline constexpr bool has_register_calls = true;
#else
inline constexpr bool has_register_calls = false;
#endif

/// Numbers of arguments that are passed in registers. Each further argument takes 8 bytes on the
/// stack.
#if defined(__x86_64__)
inline constexpr std::size_t integer_registers = 6;
#else
inline constexpr std::size_t integer_registers = 8;
#endif
inline constexpr std::size_t float_registers = 8;

/// Registers and stack words before a call, and the result registers after the call. The assembly
/// code in register_call.cpp depends on the offsets of the members.
///
/// Elements of `integers` and `floats` that the function does not take as arguments may have any
/// value.
struct register_image {
  std::uint64_t integers[8];
  // A float is in the low bits, as in the processor's register.
  std::uint64_t floats[float_registers];
  const std::uint64_t* stack; // words that are passed on the stack, in the order of the arguments
  std::uint64_t stack_words;
  std::uint64_t floats_used; // at most 8
  const void* code;
  void* stack_top; // top of the stack on which the function runs; null for the caller's stack
  std::uint64_t integer_result;
  std::uint64_t float_result;
  void* frame;                // address of the caller's saved registers, which the call sets
  std::uint64_t fault_signal; // signal that ended the function, set by the fault handler of VEO,
                              // which needs this member and `frame` to be 0 before a call
  // If not 0, exceptions of the function pass through the call; the function must then run on the
  // caller's stack. If 0, an exception ends the process.
  std::uint64_t passes_exceptions;
};

/// Calls the function of the image. Terminates the process if this processor has no assembly code
/// for calls.
void invoke(register_image& image);

/// Returns true if `code` is an address in the code of invoke(), before the landing.
[[nodiscard]] bool is_in_invoke(const void* code) noexcept;

/// Returns the address at which a thread continues after a fault in its function. The call then
/// returns without results. The code at this address expects the pointers to the image and to its
/// frame in two registers, which the fault handler of VEO sets. Returns null on processors for
/// which VEO does not exist.
[[nodiscard]] const void* landing() noexcept;

} // namespace farcall::native
