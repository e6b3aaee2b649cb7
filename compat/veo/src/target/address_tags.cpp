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

// Relaxed: nothing is published with it.
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

/// Registers hold more than addresses: what would not be one near memory is left alone. Near,
/// because code also works with ends of arrays, and with starts that lie before the first element.
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

#if defined(__x86_64__)

bool is_canonical(std::uint64_t value) noexcept {
  constexpr std::uint64_t half = std::uint64_t{1} << 47;
  return value + half < 2 * half;
}

/// Compilers split addresses: there may be no address in any register, only in their sum.
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
  // The base has it, unless there is none, or it is in order as it is and the index is not.
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

/// The processor does not say which address it was: a tagged one is none at all.
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
  // System calls take such addresses too then; threads inherit this. Without it, they do not.
  if (known) ::prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0);
#endif
}

bool strip_tags(const siginfo_t& fault, ucontext_t& context) noexcept {
  const int identifier = own_identifier.load(std::memory_order_relaxed);
  if (identifier == nobody || !may_be_of_a_tag(fault)) return false;
  machine_context registers(context);
  // All at once, so that what the code compares with each other stays alike.
  if (strip_registers(registers, identifier)) return true;
#if defined(__x86_64__)
  return strip_operand(registers, identifier);
#else
  return false;
#endif
}

} // namespace farcall::veo
