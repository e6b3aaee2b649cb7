#include "program_tables.hpp"

#include "run_plan.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/target_url.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds answer_time{5};
/// Nothing is copied there.
constexpr std::size_t heap_of_asked = std::size_t{64} << 20;

/// What runs programs of an instruction set elsewhere, and where their libraries are then.
struct emulation {
  unsigned machine;
  std::string_view emulator;
  std::string_view libraries;
};
constexpr std::array<emulation, 3> emulations{
    {{EM_X86_64, "qemu-x86_64", "/usr/x86_64-linux-gnu"},
     {EM_AARCH64, "qemu-aarch64", "/usr/aarch64-linux-gnu"},
     {EM_RISCV, "qemu-riscv64", "/usr/riscv64-linux-gnu"}}};

/// The instruction set of a program file; nothing where it is none.
std::optional<unsigned> machine_of(const std::string& file) {
  std::ifstream stream{file, std::ios::binary};
  std::array<char, 20> head{};
  if (!stream.read(head.data(), head.size()) || std::memcmp(head.data(), ELFMAG, SELFMAG) != 0)
    return std::nullopt;
  const bool is_big = head[EI_DATA] == ELFDATA2MSB;
  const auto low = static_cast<unsigned char>(head[is_big ? 19 : 18]);
  const auto high = static_cast<unsigned char>(head[is_big ? 18 : 19]);
  return low + 256U * high;
}

std::string search_path() {
  const char* const path = std::getenv("PATH");
  return path == nullptr ? "/usr/bin:/bin" : path;
}

/// Has what is written to standard output go to standard error while it exists.
class output_to_error {
 public:
  output_to_error() : kept_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    if (!kept_ || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      throw failed_run("cannot pass on what the program prints: " + reason_text(errno));
  }
  output_to_error(const output_to_error&) = delete;
  output_to_error& operator=(const output_to_error&) = delete;
  ~output_to_error() { ::dup2(kept_.get(), STDOUT_FILENO); }

 private:
  unique_fd kept_;
};

job_options options_for(const std::string& program, std::chrono::milliseconds patience) {
  job_options o;
  o.process_manager = "none";
  o.start_timeout = patience;
  o.heap_bytes = heap_of_asked;
  if (program.starts_with("exec:")) {
    if (parse_targets(program).size() != 1)
      throw usage_problem(program + ": names several targets; give one command line");
    o.targets = program;
    return o;
  }
  o.targets = "shm";
  o.program = find_program(program, search_path());
  o.arguments = {program};
  if (std::vector<std::string> words = emulator_of(o.program); !words.empty()) {
    words.push_back(o.program);
    o.program = words.front();
    o.arguments = std::move(words);
  }
  return o;
}

} // namespace

std::vector<std::string> emulator_of(const std::string& file) {
  const auto machine = machine_of(file);
  if (!machine || machine == machine_of(running_program)) return {};
  for (const emulation& e : emulations) {
    if (e.machine != *machine) continue;
    for (const std::string_view end : {"", "-static"}) {
      try {
        const std::string emulator =
            find_program(fmt::format("{}{}", e.emulator, end), search_path());
        if (!std::filesystem::exists(e.libraries) || std::getenv("QEMU_LD_PREFIX") != nullptr)
          return {emulator};
        return {emulator, "-L", std::string(e.libraries)};
      } catch (const usage_problem&) {
        continue; // the system may know how to start the program, or say why not
      }
    }
  }
  return {};
}

detail::program_table read_program_table(const std::string& program,
                                         std::chrono::milliseconds patience) {
  const job_options options = options_for(program, patience);
  const output_to_error while_it_runs;
  try {
    const job asking(options);
    return detail::table_of(asking.targets().front().within(answer_time));
  } catch (const error& e) {
    throw failed_run(
        fmt::format("{}: cannot be asked for its functions, because {}", program, e.what()));
  }
}

} // namespace farcall::tool
