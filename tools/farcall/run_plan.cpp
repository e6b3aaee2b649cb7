// SPDX-License-Identifier: Apache-2.0
#include "run_plan.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/transport/target_url.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

bool is_executable_file(const std::string& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
}

/// True for ELF files, and for scripts that begin with "#!". The kernel refuses other scripts,
/// which only a shell can run.
bool kernel_can_start(const std::string& file) {
  std::ifstream stream{file, std::ios::binary};
  // A file may be executable but not readable. The beginning of such a file cannot be checked.
  if (!stream) return true;
  char head[4] = {};
  stream.read(head, sizeof head);
  return std::memcmp(head, "\177ELF", 4) == 0 || std::memcmp(head, "#!", 2) == 0;
}

void check_startable(const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    throw usage_problem(fmt::format("{}: no such file; give the path of a program", file));
  }
  if (fs::is_directory(status))
    throw usage_problem(fmt::format("{}: is a folder; give the path of a program", file));
  if (!is_executable_file(file)) {
    throw usage_problem(
        fmt::format("{}: may not be executed; try chmod +x {}, if it is a program", file, file));
  }
  if (!kernel_can_start(file)) {
    throw usage_problem(fmt::format(
        "{}: is neither a program nor a script that begins with #!; start it by its interpreter",
        file));
  }
}

} // namespace

bool contains_farcall(const std::string& program) {
  const unique_fd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size == 0) return true;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (bytes == MAP_FAILED) return true;
  // A program with the static library contains the names of environment variables, and a program
  // with the shared library contains its name.
  constexpr std::array<std::string_view, 2> marks = {"FARCALL_BOOTSTRAP", "libfarcall.so"};
  const bool has_any = std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return ::memmem(bytes, size, mark.data(), mark.size()) != nullptr;
  });
  ::munmap(bytes, size);
  return has_any;
}

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    check_startable(name);
    return name;
  }
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = end == at ? "." : path.substr(at, end - at);
    const std::string file = fmt::format("{}/{}", folder, name);
    if (is_executable_file(file)) {
      check_startable(file);
      return file;
    }
    at = end + 1;
  }
  if (fs::exists(name)) {
    throw usage_problem(
        fmt::format("{}: not on the PATH; write ./{} for the file here", name, name));
  }
  throw usage_problem(
      fmt::format("{}: no such program here or on the PATH; give the path of a program", name));
}

run_plan make_run_plan(std::optional<std::size_t> processes, std::optional<std::string> targets,
                       const std::vector<std::string>& command, bool are_equals) {
  if (processes && targets)
    throw usage_problem("-n and --targets both name the targets; give one of them");
  if (command.empty())
    throw usage_problem("no program given; for example: farcall run -n 4 ./app its arguments");
  run_plan plan;
  if (processes) {
    if (*processes == 0) throw usage_problem("-n 0: a job has at least one node; give 1 or more");
    if (*processes < 2 && !are_equals) {
      throw usage_problem(fmt::format("-n {}: the number counts the host; give 2 or more, "
                                      "or --spmd for a job of one node",
                                      *processes));
    }
    if (*processes > max_targets + 1) {
      throw usage_problem(
          fmt::format("-n {}: give at most {}, the host included", *processes, max_targets + 1));
    }
    plan.targets = *processes == 1   ? std::string(no_targets)
                   : *processes == 2 ? "shm"
                                     : fmt::format("shm:{}", *processes - 1);
  } else if (targets) {
    plan.targets = *targets;
    if (plan.targets.empty()) throw usage_problem("--targets is empty; give for example shm:4");
  } else {
    const setting& s = settings::row("targets");
    if (const auto set = settings_source().text(s)) {
      plan.targets = *set;
    } else {
      plan.passes_targets_on = false;
      if (!is_launched(detail::process_manager_of({}))) plan.targets = settings::default_of(s);
    }
  }
  // Parse the targets here. If they are invalid, this throws the setting_error that the program
  // would throw too.
  if (!plan.targets.empty() && (!are_equals || plan.targets != no_targets))
    (void)parse_targets(plan.targets);
  const char* path = std::getenv("PATH");
  plan.program = find_program(command.front(), path == nullptr ? "/usr/bin:/bin" : path);
  plan.words = command;
  return plan;
}

} // namespace farcall::tool
