// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/native/register_call.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <ucontext.h>

namespace farcall::veo {

/// Registers of an interrupted thread. A signal handler can read and change them.
class machine_context {
 public:
  explicit machine_context(ucontext_t& context) noexcept : registers_(context.uc_mcontext) {}

  std::uint64_t program_counter() const noexcept;
  std::uint64_t stack_pointer() const noexcept;

  /// Calls `change(value)` with each general register that may hold the address of data.
  template <class Change>
  void for_each_general_register(Change change) noexcept;

#if defined(__x86_64__)
  /// Return and set the general register with this x86 number (0 = rax, 1 = rcx, ...).
  std::uint64_t general(int number) const noexcept;
  void set_general(int number, std::uint64_t value) noexcept;
#endif

  /// Undoes a call to an address without code: sets the program counter to the return address,
  /// which is read from the thread's stack.
  void leave_call() noexcept;

  /// Makes the thread continue at native::landing(), so that its kernel call returns.
  void land(native::register_image& image) noexcept;

 private:
  mcontext_t& registers_;
};

#if defined(__x86_64__)

inline constexpr std::array general_register_order = {
    REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

inline std::uint64_t machine_context::program_counter() const noexcept {
  return static_cast<std::uint64_t>(registers_.gregs[REG_RIP]);
}

inline std::uint64_t machine_context::stack_pointer() const noexcept {
  return static_cast<std::uint64_t>(registers_.gregs[REG_RSP]);
}

template <class Change>
void machine_context::for_each_general_register(Change change) noexcept {
  for (const int index : general_register_order) {
    if (index == REG_RSP) continue; // skip the stack pointer, which has no tag
    auto value = static_cast<std::uint64_t>(registers_.gregs[index]);
    change(value);
    registers_.gregs[index] = static_cast<greg_t>(value);
  }
}

inline std::uint64_t machine_context::general(int number) const noexcept {
  const int index = general_register_order[static_cast<std::size_t>(number)];
  return static_cast<std::uint64_t>(registers_.gregs[index]);
}

inline void machine_context::set_general(int number, std::uint64_t value) noexcept {
  const int index = general_register_order[static_cast<std::size_t>(number)];
  registers_.gregs[index] = static_cast<greg_t>(value);
}

inline void machine_context::leave_call() noexcept {
  std::uint64_t back = 0;
  std::memcpy(&back, reinterpret_cast<const void*>(stack_pointer()), sizeof back);
  registers_.gregs[REG_RIP] = static_cast<greg_t>(back);
  registers_.gregs[REG_RSP] += 8;
}

inline void machine_context::land(native::register_image& image) noexcept {
  registers_.gregs[REG_RIP] = reinterpret_cast<greg_t>(native::landing());
  registers_.gregs[REG_RBX] = reinterpret_cast<greg_t>(&image);
  registers_.gregs[REG_RBP] = reinterpret_cast<greg_t>(image.frame);
  registers_.gregs[REG_RSP] = reinterpret_cast<greg_t>(image.frame) - 40; // five saved registers
}

#else

inline std::uint64_t machine_context::program_counter() const noexcept { return registers_.pc; }

inline std::uint64_t machine_context::stack_pointer() const noexcept { return registers_.sp; }

template <class Change>
void machine_context::for_each_general_register(Change change) noexcept {
  for (int index = 0; index < 30; ++index) {
    std::uint64_t value = registers_.regs[index];
    change(value);
    registers_.regs[index] = value;
  }
}

inline void machine_context::leave_call() noexcept { registers_.pc = registers_.regs[30]; }

inline void machine_context::land(native::register_image& image) noexcept {
  registers_.pc = reinterpret_cast<std::uint64_t>(native::landing());
  registers_.regs[19] = reinterpret_cast<std::uint64_t>(&image);
  registers_.regs[29] = reinterpret_cast<std::uint64_t>(image.frame);
  registers_.sp = registers_.regs[29];
  // Clear the branch type (BTYPE) that a bad indirect branch has set. Otherwise the thread would
  // fault again at the landing address, which is no branch target.
  constexpr std::uint64_t branch_type = 3U << 10U;
  registers_.pstate &= ~branch_type;
}

#endif

} // namespace farcall::veo
