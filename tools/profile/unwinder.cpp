#include "unwinder.hpp"

#include "elf_file.hpp"
#include "perf_events.hpp"

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
/// Address spaces whose files are kept open.
constexpr std::size_t most_sessions = 32;
constexpr std::size_t known_registers = 17;
constexpr std::size_t stack_pointer = 7; ///< in a sample
/// Places in a sample of what DWARF numbers 0, 1, … on x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp,
/// rsp, r8 to r15, and the address of the instruction.
constexpr std::array<std::size_t, known_registers> register_order{0,  3,  2,  1,  4,  5,  6,  7, 9,
                                                                  10, 11, 12, 13, 14, 15, 16, 8};

struct dwfl_end_call {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

/// Frames are described in the program itself; nothing is looked for elsewhere, nor on servers.
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

/// How far from its file's addresses a mapping is.
std::optional<std::uint64_t> bias_of(const elf_file& elf, const address_space::mapping& mapping) {
  // The segment may begin anywhere in the first page.
  constexpr std::uint64_t last_of_page = 4095;
  for (const std::uint64_t within : {std::uint64_t{0}, last_of_page}) {
    if (const auto address = elf.address_of(mapping.file_offset + within))
      return mapping.start + within - *address;
  }
  return {};
}

} // namespace

/// The modules of one address space, and the sample that is looked at.
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
      // On success it has the descriptor.
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

  /// What is not in the copy of the stack is not known.
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
    // What a signal has interrupted is no return address, and one is taken off those.
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
  if (sessions_.size() > most_sessions) sessions_.clear();
  auto& at = sessions_[space.version()];
  if (!at) at = std::make_unique<session>(space, files_);
  std::vector<std::uint64_t> found = at->unwind(sample);
  if (found.size() > 1 || sample.addresses.size() <= 1) {
    if (!found.empty()) sample.addresses = std::move(found);
  }
}

bool can_unwind() { return sampled_registers() != 0; }

} // namespace farcall::tool
