// SPDX-License-Identifier: Apache-2.0
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

constexpr std::chrono::seconds reply_time{5};
/// Heap size of a program that is started only for its table of callables. A small heap is enough,
/// because no data is copied.
constexpr std::size_t heap_of_asked = std::size_t{64} << 20;

/// An emulator that runs programs of another instruction set, and the folder with the libraries for
/// these programs.
struct emulation {
  unsigned machine;
  std::string_view emulator;
  std::string_view libraries;
};
constexpr std::array<emulation, 3> emulations{
    {{EM_X86_64, "qemu-x86_64", "/usr/x86_64-linux-gnu"},
     {EM_AARCH64, "qemu-aarch64", "/usr/aarch64-linux-gnu"},
     {EM_RISCV, "qemu-riscv64", "/usr/riscv64-linux-gnu"}}};

/// Returns the instruction set of an ELF file. Returns nothing for other files.
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

/// During the lifetime of this object, everything that is written to standard output goes to
/// standard error.
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

job_options options_for(const std::string& program, std::chrono::milliseconds timeout) {
  job_options o;
  o.process_manager = "none";
  o.start_timeout = timeout;
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
        // Try the next name, because PATH has no emulator of this name. If no emulator is found,
        // the program is started directly. Either the system can run it, or the system's error
        // tells the user the reason.
        continue;
      }
    }
  }
  return {};
}

detail::program_table read_program_table(const std::string& program,
                                         std::chrono::milliseconds timeout) {
  const job_options options = options_for(program, timeout);
  const output_to_error while_it_runs;
  try {
    const job asking(options);
    return detail::table_of(asking.targets().front().within(reply_time));
  } catch (const error& e) {
    throw failed_run(
        fmt::format("{}: cannot be asked for its functions, because {}", program, e.what()));
  }
}

} // namespace farcall::tool
