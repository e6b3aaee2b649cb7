// SPDX-License-Identifier: Apache-2.0
#include "memory_operand.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include <Zydis/Zydis.h>

namespace farcall::veo {
namespace {

/// Returns the number that a general register has in machine code. Zydis numbers its register names
/// in the same order.
int number_of(ZydisRegister name) noexcept {
  const bool is_general = name >= ZYDIS_REGISTER_RAX && name <= ZYDIS_REGISTER_R15;
  return is_general ? name - ZYDIS_REGISTER_RAX : memory_operand::no_register;
}

/// True if the operand is encoded in the instruction. String and stack instructions have implied
/// operands instead. The address of an implied operand is in a single register, so that the fault
/// handler finds its tag without this decoder.
bool is_encoded(const ZydisDecodedOperand& operand) noexcept {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
         operand.encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM;
}

bool has_segment_base(const ZydisDecodedOperandMem& memory) noexcept {
  return memory.segment == ZYDIS_REGISTER_FS || memory.segment == ZYDIS_REGISTER_GS;
}

} // namespace

std::optional<memory_operand> memory_operand_of(const unsigned char* instruction) noexcept {
  // Zydis can be used in a signal handler, because it neither allocates nor locks.
  ZydisDecoder decoder;
  ZydisDecodedInstruction decoded;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> buffer;
  if (ZYAN_FAILED(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
      ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, instruction, ZYDIS_MAX_INSTRUCTION_LENGTH,
                                         &decoded, buffer.data()))) {
    return std::nullopt;
  }
  if (decoded.address_width != 64) return std::nullopt;
  const std::span operands(buffer.data(), decoded.operand_count);
  const auto encoded = std::ranges::find_if(operands, is_encoded);
  if (encoded == operands.end() || has_segment_base(encoded->mem)) return std::nullopt;

  // In gather and scatter instructions, the index is a vector register. The fault handler does not
  // change vector registers, so such an index counts as absent.
  const ZydisDecodedOperandMem& memory = encoded->mem;
  memory_operand found;
  found.base = number_of(memory.base);
  found.index = number_of(memory.index);
  if (found.base == memory_operand::no_register && found.index == memory_operand::no_register) {
    return std::nullopt; // an absolute address, or an address relative to the instruction
  }
  if (found.index != memory_operand::no_register) {
    found.shift = static_cast<unsigned>(std::countr_zero(memory.scale));
  }
  found.displacement = memory.disp.value;
  return found;
}

} // namespace farcall::veo
