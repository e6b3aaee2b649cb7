// SPDX-License-Identifier: Apache-2.0
#include "unwinder.hpp"

#include "perf_events.hpp"
#include <tools/common/elf_file.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t deepest_stack = 256;
/// Maximum number of address spaces for which libdwfl keeps the files open.
constexpr std::size_t max_sessions = 32;
constexpr std::size_t known_registers = 17;
constexpr std::size_t stack_pointer = 7; ///< index of the stack pointer in a sample's registers
/// For each of DWARF's registers 0, 1, … on x86-64, its index in a sample's registers. DWARF's
/// order is rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the instruction pointer.
constexpr std::array<std::size_t, known_registers> register_order{0,  3,  2,  1,  4,  5,  6,  7, 9,
                                                                  10, 11, 12, 13, 14, 15, 16, 8};

struct dwfl_end_call {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

/// Finds no debug file, so that libdwfl searches neither other files nor debuginfod servers. They
/// are not needed, because the program's own file has the unwind tables.
int no_debug_file(Dwfl_Module* /*module*/, void** /*user*/, const char* /*name*/,
                  Dwarf_Addr /*base*/, const char* /*file*/, const char* /*link*/,
                  GElf_Word /*checksum*/, char** /*found*/) {
  return -1;
}

int no_elf_file(Dwfl_Module* /*module*/, void** /*user*/, const char* /*name*/, Dwarf_Addr /*base*/,
                char** /*file*/, Elf** /*elf*/) {
  return -1;
}

constexpr Dwfl_Callbacks module_callbacks{no_elf_file, no_debug_file, nullptr, nullptr};

/// Returns the difference between an address in the mapping and the corresponding address in the
/// file's headers.
std::optional<std::uint64_t> bias_of(const elf_file& elf, const address_space::mapping& mapping) {
  // A mapping begins at a page boundary, but its segment may begin later in the first page. So if
  // the segment does not hold the page's first byte, try its last byte.
  constexpr std::uint64_t last_of_page = 4095;
  for (const std::uint64_t within : {std::uint64_t{0}, last_of_page}) {
    if (const auto address = elf.address_of(mapping.file_offset + within))
      return mapping.start + within - *address;
  }
  return {};
}

} // namespace

/// Data of libdwfl for one address space: its modules, and the sample whose stack is being unwound.
class unwinder::session {
 public:
  session(const address_space& space, const modules& files) : dwfl_(dwfl_begin(&module_callbacks)) {
    if (!dwfl_) return;
    std::set<std::pair<std::uint32_t, std::uint64_t>> reported;
    dwfl_report_begin(dwfl_.get());
    for (const auto& [start, mapping] : space.all()) {
      if (mapping.module == modules::none) continue;
      const module_file& module = files.all()[mapping.module];
      const auto bias = bias_of(elf_file(module.file.get()), mapping);
      if (!bias || !reported.emplace(mapping.module, *bias).second) continue;
      const int file = fcntl(module.file.get(), F_DUPFD_CLOEXEC, 3);
      // If dwfl_report_elf() succeeds, libdwfl closes the descriptor later.
      if (file >= 0 && dwfl_report_elf(dwfl_.get(), module.path.c_str(), module.path.c_str(), file,
                                       *bias, false) == nullptr)
        close(file);
    }
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    is_usable_ = dwfl_attach_state(dwfl_.get(), nullptr, 1, &thread_callbacks, this);
  }

  [[nodiscard]] std::vector<std::uint64_t> unwind(const sample_record& sample) {
    sample_ = &sample;
    std::vector<std::uint64_t> addresses;
    if (is_usable_) dwfl_getthread_frames(dwfl_.get(), 1, note_frame, &addresses);
    return addresses;
  }

 private:
  static pid_t next_thread(Dwfl* /*dwfl*/, void* argument, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = argument;
    return 1;
  }

  static bool get_thread(Dwfl* /*dwfl*/, pid_t /*thread*/, void* argument, void** thread) {
    *thread = argument;
    return true;
  }

  /// Reads a word from the copy of the stack. Returns false for addresses outside the copy.
  static bool read_memory(Dwfl* /*dwfl*/, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
    const sample_record& sample = *static_cast<session*>(argument)->sample_;
    const std::uint64_t start = sample.registers[stack_pointer];
    if (address < start) return false;
    const std::uint64_t offset = address - start;
    if (sample.stack.size() < sizeof *result || offset > sample.stack.size() - sizeof *result)
      return false;
    std::memcpy(result, sample.stack.data() + offset, sizeof *result);
    return true;
  }

  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const sample_record& sample = *static_cast<session*>(argument)->sample_;
    std::array<Dwarf_Word, known_registers> values{};
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = sample.registers[register_order[i]];
    return dwfl_thread_state_registers(thread, 0, known_registers, values.data());
  }

  static int note_frame(Dwfl_Frame* frame, void* argument) {
    auto& addresses = *static_cast<std::vector<std::uint64_t>*>(argument);
    Dwarf_Addr address = 0;
    bool is_exact = false;
    if (!dwfl_frame_pc(frame, &address, &is_exact) || address == 0) return DWARF_CB_ABORT;
    // An exact address is no return address: a signal has interrupted this instruction. The
    // recording subtracts one from the addresses of all callers, so add one to an exact address.
    addresses.push_back(address + (is_exact && !addresses.empty() ? 1 : 0));
    return addresses.size() < deepest_stack ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  static constexpr Dwfl_Thread_Callbacks thread_callbacks{next_thread,   get_thread, read_memory,
                                                          set_registers, nullptr,    nullptr};

  std::unique_ptr<Dwfl, dwfl_end_call> dwfl_;
  const sample_record* sample_ = nullptr;
  bool is_usable_ = false;
};

unwinder::unwinder(const modules& files) : files_(files) {}

unwinder::~unwinder() = default;

void unwinder::unwind(const address_space& space, sample_record& sample) {
  if (sample.registers.size() != known_registers) return;
  if (sessions_.size() > max_sessions) sessions_.clear();
  auto& at = sessions_[space.version()];
  if (!at) at = std::make_unique<session>(space, files_);
  std::vector<std::uint64_t> found = at->unwind(sample);
  if (found.size() > 1 || sample.addresses.size() <= 1) {
    if (!found.empty()) sample.addresses = std::move(found);
  }
}

bool can_unwind() { return sampled_registers() != 0; }

} // namespace farcall::tool
