// SPDX-License-Identifier: Apache-2.0
#include "counted_processes.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/counter_segment.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

namespace fs = std::filesystem;

std::optional<pid_t> process_number(const fs::path& entry) {
  const std::string name = entry.filename();
  pid_t number = 0;
  const auto done = std::from_chars(name.data(), name.data() + name.size(), number);
  if (done.ec != std::errc() || done.ptr != name.data() + name.size()) return std::nullopt;
  return number;
}

/// Returns the id that the process has in its own PID namespace. In /proc, this id is the last
/// number of the line NSpid.
std::optional<std::int64_t> own_number(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    std::int64_t last = 0;
    for (std::int64_t n = 0; numbers >> n;)
      last = n;
    return last;
  }
  return std::nullopt;
}

} // namespace

std::optional<counted_process> counters_in(pid_t process, const std::string& path) {
  // Open only the name and check the type. The process may have closed the file since, and the same
  // descriptor may now be a pipe or a device, which would block or have side effects when opened.
  const unique_fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status{};
  if (!place || ::fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const unique_fd file(
      ::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  auto reader = std::make_shared<counter_reader>(file.get());
  // Refuse the file if another process writes the counters: a forked child may still hold the
  // counters of its parent.
  if (own_number(process) != reader->process()) return std::nullopt;
  struct stat numbers{};
  (void)::stat(fmt::format("/proc/{}/ns/pid", process).c_str(), &numbers);
  std::error_code ignored;
  return counted_process{process,
                         status.st_ino,
                         status.st_uid,
                         numbers.st_ino,
                         fs::read_symlink(fmt::format("/proc/{}/exe", process), ignored),
                         std::move(reader)};
}

void unreadable_counters::add(const std::exception& e) {
  ++number;
  if (why.empty()) why = e.what();
}

void add_counters_of(pid_t process, std::vector<counted_process>& to, unreadable_counters& others) {
  const std::string wanted = std::string("/memfd:") + counter_segment::label;
  std::error_code problem;
  // The loop finds nothing if the list of descriptors cannot be read. This is so for another user's
  // process, and for a process that has ended.
  fs::directory_iterator files(fmt::format("/proc/{}/fd", process), problem);
  for (; !problem && files != fs::directory_iterator(); files.increment(problem)) {
    std::error_code gone;
    const std::string leads_to = fs::read_symlink(files->path(), gone);
    if (gone || !leads_to.starts_with(wanted)) continue;
    try {
      auto found = counters_in(process, files->path());
      if (!found) continue;
      const auto is_same = [&](const counted_process& p) { return p.file == found->file; };
      if (std::none_of(to.begin(), to.end(), is_same)) to.push_back(std::move(*found));
    } catch (const error& e) {
      others.add(e);
    }
  }
}

std::vector<counted_process> find_counted_processes(unreadable_counters& others) {
  std::vector<counted_process> found;
  std::error_code problem;
  fs::directory_iterator processes("/proc", problem);
  if (problem) throw_system_error("reading /proc, where processes are found", problem.value());
  for (; !problem && processes != fs::directory_iterator(); processes.increment(problem)) {
    if (const auto number = process_number(processes->path()))
      add_counters_of(*number, found, others);
  }
  return found;
}

process_usage usage_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return {};
  // Search for the last parenthesis, because the program's name is in parentheses and may itself
  // contain some.
  const std::size_t behind_name = line.rfind(')');
  if (behind_name == std::string::npos) return {};
  std::istringstream fields(line.substr(behind_name + 1));
  std::vector<std::string> values;
  for (std::string value; fields >> value;)
    values.push_back(value);
  // Index 0 is the field that proc(5) numbers 3, the state.
  constexpr std::size_t user_time = 14 - 3;
  constexpr std::size_t system_time = 15 - 3;
  constexpr std::size_t resident_pages = 24 - 3;
  if (values.size() <= resident_pages) return {};
  static const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {(std::stod(values[user_time]) + std::stod(values[system_time])) / ticks,
          std::stoull(values[resident_pages]) * page_bytes()};
}

} // namespace farcall::tool
