// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace farcall::veo {

/// Memory operand of an x86-64 instruction. Its address is base + (index << shift) + displacement.
struct memory_operand {
  static constexpr int no_register = -1;

  int base = no_register; // number of the register as in machine code: 0 is rax, 15 is r15
  int index = no_register;
  unsigned shift = 0;
  std::int64_t displacement = 0;

  friend bool operator==(const memory_operand&, const memory_operand&) = default;
};

/// Returns the memory operand that is encoded in the instruction, if it uses general registers.
/// Returns none for string instructions and for instructions that work on the stack. Reads no bytes
/// behind the instruction. Safe in signal handlers. Built only with Zydis (FARCALL_VEO_HAS_ZYDIS).
std::optional<memory_operand> memory_operand_of(const unsigned char* instruction) noexcept;

} // namespace farcall::veo
