// SPDX-License-Identifier: Apache-2.0
#include "address_tags.hpp"

#include "machine_context.hpp"
#include "memory_operand.hpp"

#include <atomic>
#include <cstdint>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

constexpr int every_process = -1;
constexpr int nobody = -2;
constexpr unsigned tag_shift = 59;
constexpr std::uint64_t address_bits = (std::uint64_t{1} << tag_shift) - 1;
constexpr std::uint64_t on_a_target = 0x10;
constexpr std::uint64_t near = 4096;

// Accesses are relaxed, because this variable publishes no other data.
std::atomic<int> own_identifier{nobody};
static_assert(std::atomic<int>::is_always_lock_free);

bool has_tag_of(std::uint64_t value, int identifier) noexcept {
  const std::uint64_t tag = value >> tag_shift;
  if ((tag & on_a_target) == 0) return false;
  return identifier == every_process || (tag & 0xF) == static_cast<std::uint64_t>(identifier);
}

bool is_mapped(std::uint64_t address) noexcept {
  unsigned char resident = 0;
  const std::uint64_t page = address - address % static_cast<std::uint64_t>(::getpagesize());
  return ::mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

/// True if memory is mapped at the address or within 4 KiB of it. A register value without such
/// memory is no address and keeps its bits. The distance is allowed because code computes addresses
/// behind the end of an array and before its first element.
bool is_near_memory(std::uint64_t address) noexcept {
  return is_mapped(address) || is_mapped(address - near) || is_mapped(address + near);
}

bool strip_registers(machine_context& registers, int identifier) noexcept {
  bool changed = false;
  registers.for_each_general_register([&](std::uint64_t& value) {
    if (!has_tag_of(value, identifier) || !is_near_memory(value & address_bits)) return;
    value &= address_bits;
    changed = true;
  });
  return changed;
}

#if FARCALL_VEO_HAS_ZYDIS

bool is_canonical(std::uint64_t value) noexcept {
  constexpr std::uint64_t half = std::uint64_t{1} << 47;
  return value + half < 2 * half;
}

/// Strips the tag of the memory operand of the current instruction. Compilers split addresses, so
/// the tag may appear in the sum of base and index although no single register contains it.
bool strip_operand(machine_context& registers, int identifier) noexcept {
  const auto operand =
      memory_operand_of(reinterpret_cast<const unsigned char*>(registers.program_counter()));
  if (!operand) return false;
  const auto value_of = [&registers](int number) {
    return number == memory_operand::no_register ? 0 : registers.general(number);
  };
  const std::uint64_t address = value_of(operand->base) +
                                (value_of(operand->index) << operand->shift) +
                                static_cast<std::uint64_t>(operand->displacement);
  if (!has_tag_of(address, identifier) || !is_near_memory(address & address_bits)) return false;
  const std::uint64_t tag = address & ~address_bits;
  // The tag is in the index register if the operand has no base, or if the base is canonical and
  // the index is not. Otherwise the tag is in the base register.
  const bool index_has_it =
      operand->base == memory_operand::no_register ||
      (operand->index != memory_operand::no_register && is_canonical(value_of(operand->base)) &&
       !is_canonical(value_of(operand->index)));
  if (index_has_it) {
    registers.set_general(operand->index, value_of(operand->index) - (tag >> operand->shift));
  } else {
    registers.set_general(operand->base, value_of(operand->base) - tag);
  }
  return true;
}

#endif

/// True if the fault may have been caused by a tagged address. On x86-64 a tagged address is not
/// canonical, so the processor reports the fault without an address.
bool may_be_of_a_tag([[maybe_unused]] const siginfo_t& fault) noexcept {
#if defined(__x86_64__)
  return fault.si_code == SI_KERNEL && fault.si_addr == nullptr;
#else
  return fault.si_code > 0;
#endif
}

} // namespace

void strip_tags_of(int process_identifier) noexcept {
  const bool known = process_identifier >= every_process && process_identifier < 16;
  own_identifier.store(known ? process_identifier : nobody, std::memory_order_relaxed);
#if defined(__aarch64__) && defined(PR_SET_TAGGED_ADDR_CTRL)
  // Enable tagged addresses in system calls, which the kernel rejects otherwise. Threads inherit
  // this setting from the thread that creates them.
  if (known) ::prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0);
#endif
}

bool strip_tags(const siginfo_t& fault, ucontext_t& context) noexcept {
  const int identifier = own_identifier.load(std::memory_order_relaxed);
  if (identifier == nobody || !may_be_of_a_tag(fault)) return false;
  machine_context registers(context);
  // Strip the tags of all registers at once, because the interrupted code may compare registers
  // with each other.
  if (strip_registers(registers, identifier)) return true;
#if FARCALL_VEO_HAS_ZYDIS
  return strip_operand(registers, identifier);
#else
  return false;
#endif
}

} // namespace farcall::veo
