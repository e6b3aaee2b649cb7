#include "memory_operand.hpp"

#include <cstring>

namespace farcall::veo {
namespace {

// Bit 3 of the numbers of registers, which are spread over prefixes.
struct extensions {
  int index = 0;
  int base = 0;
};

/// Whether a byte that says which operands there are follows a one-byte opcode. Only those that
/// access memory by it.
bool has_operand_byte(unsigned char opcode) noexcept {
  if (opcode < 0x40) return (opcode & 7U) < 4;
  switch (opcode) {
  case 0x63:
  case 0x69:
  case 0x6B:
  case 0xC0:
  case 0xC1:
  case 0xC6:
  case 0xC7:
  case 0xF6:
  case 0xF7:
  case 0xFE:
  case 0xFF:
    return true;
  default:
    return (opcode >= 0x80 && opcode <= 0x8F) || (opcode >= 0xD0 && opcode <= 0xD3) ||
           (opcode >= 0xD8 && opcode <= 0xDF);
  }
}

/// The same for opcodes behind 0F, of which only these have none: system instructions and jumps.
bool has_operand_byte_behind_0f(unsigned char opcode) noexcept {
  const bool has_none = (opcode >= 0x04 && opcode <= 0x0B) || (opcode >= 0x30 && opcode <= 0x37) ||
                        opcode == 0x77 || (opcode >= 0x80 && opcode <= 0x8F) || opcode == 0xA2 ||
                        (opcode >= 0xC8 && opcode <= 0xCF);
  return !has_none;
}

/// Gathers and scatters have an index for each element, in a vector register.
bool has_vector_index(unsigned map, unsigned char opcode) noexcept {
  return map == 2 && ((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xA0 && opcode <= 0xA3));
}

std::optional<memory_operand> read_operand(const unsigned char* next, extensions extended,
                                           bool vector_index) noexcept {
  const unsigned operands = *next++;
  const unsigned mode = operands >> 6U;
  if (mode == 3) return std::nullopt; // two registers
  unsigned displacement_bytes = mode == 0 ? 0 : mode == 1 ? 1 : 4;

  memory_operand found;
  const unsigned low = operands & 7U;
  if (low == 4) {
    const unsigned scaled = *next++;
    const int index = static_cast<int>((scaled >> 3U) & 7U) | extended.index;
    if (index != 4 && !vector_index) {
      found.index = index;
      found.shift = scaled >> 6U;
    }
    if ((scaled & 7U) == 5 && mode == 0) {
      displacement_bytes = 4;
    } else {
      found.base = static_cast<int>(scaled & 7U) | extended.base;
    }
  } else if (low == 5 && mode == 0) {
    return std::nullopt; // relative to the instruction
  } else {
    found.base = static_cast<int>(low) | extended.base;
  }
  if (found.base == memory_operand::no_register && found.index == memory_operand::no_register) {
    return std::nullopt;
  }
  if (displacement_bytes == 1) {
    found.displacement = *next < 0x80 ? *next : *next - 0x100;
  } else if (displacement_bytes == 4) {
    std::int32_t displacement = 0;
    std::memcpy(&displacement, next, sizeof displacement);
    found.displacement = displacement;
  }
  return found;
}

} // namespace

std::optional<memory_operand> memory_operand_of(const unsigned char* instruction) noexcept {
  const unsigned char* next = instruction;
  for (bool is_prefix = true; is_prefix;) {
    switch (*next) {
    case 0x64: // another segment begins elsewhere
    case 0x65:
    case 0x67: // addresses of 32 bits
      return std::nullopt;
    case 0x26:
    case 0x2E:
    case 0x36:
    case 0x3E:
    case 0x66:
    case 0xF0:
    case 0xF2:
    case 0xF3:
      ++next;
      break;
    default:
      is_prefix = false;
    }
  }

  extensions extended;
  if (*next == 0xC5) return read_operand(next + 3, extended, false);
  if (*next == 0xC4 || *next == 0x62) {
    const bool is_long = *next == 0x62;
    // Inverted, in both.
    extended.index = (next[1] & 0x40U) != 0 ? 0 : 8;
    extended.base = (next[1] & 0x20U) != 0 ? 0 : 8;
    const unsigned map = next[1] & (is_long ? 7U : 31U);
    next += is_long ? 4 : 3;
    return read_operand(next + 1, extended, has_vector_index(map, *next));
  }
  if ((*next & 0xF0U) == 0x40) {
    extended.index = (*next & 2U) != 0 ? 8 : 0;
    extended.base = (*next & 1U) != 0 ? 8 : 0;
    ++next;
  }
  if (*next != 0x0F) {
    if (!has_operand_byte(*next)) return std::nullopt;
    return read_operand(next + 1, extended, false);
  }
  ++next;
  if (*next == 0x38 || *next == 0x3A) {
    ++next;
  } else if (!has_operand_byte_behind_0f(*next)) {
    return std::nullopt;
  }
  return read_operand(next + 1, extended, false);
}

} // namespace farcall::veo
