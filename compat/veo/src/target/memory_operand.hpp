#pragma once

#include <cstdint>
#include <optional>

namespace farcall::veo {

/// How an x86-64 instruction says which memory it accesses: base + (index << shift) + displacement.
struct memory_operand {
  static constexpr int no_register = -1;

  int base = no_register; // as in machine code: 0 is rax, 15 r15
  int index = no_register;
  unsigned shift = 0;
  std::int64_t displacement = 0; // of AVX-512 instructions with a short one only part of it

  friend bool operator==(const memory_operand&, const memory_operand&) = default;
};

/// Of an instruction whose operand is encoded in it and uses registers: not of string instructions,
/// or of those that work on the stack. Reads no bytes behind the instruction.
std::optional<memory_operand> memory_operand_of(const unsigned char* instruction) noexcept;

} // namespace farcall::veo
