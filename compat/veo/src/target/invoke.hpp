#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "kernels can be called on Linux on x86-64 and aarch64 only"
#endif

namespace farcall::veo {

/// Numbers of arguments that are passed in registers. Each further argument takes 8 bytes on the
/// stack.
#if defined(__x86_64__)
inline constexpr std::size_t integer_registers = 6;
#else
inline constexpr std::size_t integer_registers = 8;
#endif
inline constexpr std::size_t float_registers = 8;

/// Registers and stack words before a kernel call, and the result registers after the call. The
/// assembly code in invoke.cpp depends on the offsets of the members.
///
/// Elements of `integers` and `floats` that the kernel does not take as arguments may have any
/// value.
struct register_image {
  std::uint64_t integers[8];
  // A float is in the low bits, as in the processor's register.
  std::uint64_t floats[float_registers];
  const std::uint64_t* stack; // words that are passed on the stack, in the order of the arguments
  std::uint64_t stack_words;
  std::uint64_t floats_used; // at most 8
  const void* code;
  void* stack_top; // top of the stack on which the kernel runs; null for the caller's stack
  std::uint64_t integer_result;
  std::uint64_t float_result;
  void* frame;                // address of the caller's saved registers, which the call sets
  std::uint64_t fault_signal; // signal that ended the kernel, set by the fault handler; clear this
                              // and `frame` before a call
};

/// Calls the kernel. The process terminates if the kernel throws an exception that it does not
/// catch.
extern "C" [[gnu::visibility("hidden")]] void farcall_veo_invoke(register_image* image);

/// Address in farcall_veo_invoke at which a thread continues after a fault in its kernel. The call
/// then returns without results. The code at this address expects the pointers to the image and to
/// its frame in two registers, which machine_context::land() sets.
extern "C" [[gnu::visibility("hidden")]] const char farcall_veo_landing[];

/// Stack on which kernels run. The pages below it are inaccessible, so that an overflow raises a
/// fault.
class kernel_stack {
 public:
  /// Maps a stack of at least `bytes` bytes. Its pages take memory only when they are first used.
  /// Throws std::system_error.
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
