#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "kernels can be called on Linux on x86-64 and aarch64 only"
#endif

namespace farcall::veo {

/// How many arguments of a kind travel in registers; further ones lie on the stack, 8 bytes each.
#if defined(__x86_64__)
inline constexpr std::size_t integer_registers = 6;
#else
inline constexpr std::size_t integer_registers = 8;
#endif
inline constexpr std::size_t float_registers = 8;

/// One call: what is in the registers and on the stack before it, and what was there after it. The
/// assembly in invoke.cpp knows the offsets.
///
/// `integers` and `floats` that the kernel does not expect may hold anything.
struct register_image {
  std::uint64_t integers[8];
  std::uint64_t floats[float_registers]; // the low bits are used, as in the register
  const std::uint64_t* stack;            // in the order of the arguments
  std::uint64_t stack_words;
  std::uint64_t floats_used; // at most 8
  const void* code;
  void* stack_top; // of the stack to run on, growing down from here; null: the caller's
  std::uint64_t integer_result;
  std::uint64_t float_result;
  void* frame;                // where the caller's registers are; set by the call, for a landing
  std::uint64_t fault_signal; // set by a landing; clear it, and `frame`, before the call
};

/// Runs the kernel. C++ exceptions do not pass: the process terminates where one is thrown.
extern "C" [[gnu::visibility("hidden")]] void farcall_veo_invoke(register_image* image);

/// The place in farcall_veo_invoke where a fault handler lets the thread go on, with the frame and
/// the image in the registers that machine_context.hpp names: the call returns, without results.
extern "C" [[gnu::visibility("hidden")]] const char farcall_veo_landing[];

/// Memory to run kernels on, with unmapped room below it, so that an overflow is a fault.
class kernel_stack {
 public:
  /// Throws std::system_error. Pages become memory when they are touched.
  explicit kernel_stack(std::size_t bytes);
  ~kernel_stack();
  kernel_stack(const kernel_stack&) = delete;
  kernel_stack& operator=(const kernel_stack&) = delete;

  void* top() const noexcept;
  std::size_t bytes() const noexcept;

 private:
  std::byte* mapping_;
  std::size_t mapped_;
};

} // namespace farcall::veo
