// SPDX-License-Identifier: Apache-2.0
#include "processes.hpp"

#include <tools/common/environment.hpp>

#include <farcall/transport/process.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

struct process_status {
  pid_t parent = 0;
  char state = 0;
  std::uint64_t started = 0; ///< in ticks since boot
  int processor = -1;
};

/// Reads a "stat" file of /proc. The process's name, which is in parentheses, may hold any
/// characters.
process_status read_status(const std::string& file) {
  process_status status;
  const std::string line = first_line_of(file);
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return status;
  std::istringstream fields(line.substr(end_of_name + 1));
  fields >> status.state >> status.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field)
    fields >> skipped;
  fields >> status.started;
  for (int field = 23; field < 39; ++field)
    fields >> skipped;
  fields >> status.processor;
  return status;
}

/// Returns the entries in a folder of /proc whose names are numbers.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    pid_t number = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && rest == name.data() + name.size()) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

/// Returns the zero-terminated texts in a file.
std::vector<std::string> texts_in(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::string> texts;
  for (std::string text; std::getline(stream, text, '\0');)
    texts.push_back(text);
  return texts;
}

template <class Number>
Number number_in(std::string_view text, int base) {
  Number value{};
  (void)std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

/// Parses a line "start-end rwxp offset major:minor inode   path". Returns false if the mapping is
/// not executable.
bool read_mapping(const std::string& line, map_record& into) {
  std::istringstream fields(line);
  std::string range;
  std::string rights;
  std::string offset;
  std::string device;
  if (!(fields >> range >> rights >> offset >> device >> into.inode)) return false;
  const std::size_t dash = range.find('-');
  const std::size_t colon = device.find(':');
  if (dash == std::string::npos || colon == std::string::npos) return false;
  if (rights.find('x') == std::string::npos) return false;
  into.start = number_in<std::uint64_t>(range, 16);
  into.bytes = number_in<std::uint64_t>(std::string_view(range).substr(dash + 1), 16) - into.start;
  into.file_offset = number_in<std::uint64_t>(offset, 16);
  into.device = std::uint64_t{number_in<std::uint32_t>(device, 16)} << 32 |
                number_in<std::uint32_t>(std::string_view(device).substr(colon + 1), 16);
  fields >> std::ws;
  std::getline(fields, into.path);
  return true;
}

} // namespace

std::vector<pid_t> with_descendants(pid_t root) {
  std::multimap<pid_t, std::pair<std::uint64_t, pid_t>> children;
  for (const pid_t process : numbers_in("/proc")) {
    const process_status status = read_status(fmt::format("/proc/{}/stat", process));
    children.emplace(status.parent, std::pair(status.started, process));
  }
  std::vector<pid_t> all{root};
  std::unordered_set<pid_t> known{root, getpid()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [from, to] = children.equal_range(all[i]);
    std::vector<std::pair<std::uint64_t, pid_t>> sorted;
    for (auto at = from; at != to; ++at)
      sorted.push_back(at->second);
    std::ranges::sort(sorted);
    for (const auto& [started, process] : sorted) {
      if (known.insert(process).second) all.push_back(process);
    }
  }
  return all;
}

bool is_process(pid_t process) {
  // The folder /proc/ID also exists if ID is a thread of a process. So ID names a process only if
  // its thread group has the same id.
  return value_in_file(fmt::format("/proc/{}/status", process), "Tgid") == process;
}

std::vector<pid_t> threads_of(pid_t process) {
  return numbers_in(fmt::format("/proc/{}/task", process));
}

pid_t parent_of(pid_t process) { return read_status(fmt::format("/proc/{}/stat", process)).parent; }

process_part part_of(pid_t process) {
  process_part part;
  const std::string mark = std::string(bootstrap_variable) + '=';
  for (const std::string& variable : texts_in(fmt::format("/proc/{}/environ", process))) {
    if (variable.starts_with(mark)) part.is_target = true;
    for (const std::string_view name : {"PMIX_RANK=", "PMI_RANK=", "PMI_ID="}) {
      if (!variable.starts_with(name)) continue;
      node_id rank = no_node;
      const char* const end = variable.data() + variable.size();
      const auto [rest, error] = std::from_chars(variable.data() + name.size(), end, rank);
      if (error == std::errc{} && rest == end) part.rank = rank;
    }
  }
  const std::vector<std::string> words = texts_in(fmt::format("/proc/{}/cmdline", process));
  part.is_server = words.size() > 1 && words[1] == "serve";
  return part;
}

std::vector<pid_t> launched_with(pid_t process) {
  // Variables by which PMIx and Slurm identify a launch, so that processes with equal values belong
  // together. Hydra sets no such variable, but its processes have the same parent on each machine.
  constexpr std::string_view names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};
  const auto launch_of = [&names](pid_t of) {
    std::vector<std::optional<std::string>> values;
    for (const std::string_view name : names)
      values.push_back(variable_of(of, name));
    return values;
  };
  if (part_of(process).rank == no_node) return {};
  const auto launch = launch_of(process);
  const bool has_name = std::ranges::any_of(launch, [](const auto& v) { return v.has_value(); });
  std::vector<pid_t> found;
  for (const pid_t other : numbers_in("/proc")) {
    if (other == process || part_of(other).rank == no_node) continue;
    if (launch_of(other) != launch) continue;
    if (has_name || parent_of(other) == parent_of(process)) found.push_back(other);
  }
  return found;
}

std::vector<map_record> mappings_of(pid_t process) {
  std::vector<map_record> all;
  std::ifstream stream(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(stream, line);) {
    map_record mapping;
    if (read_mapping(line, mapping)) all.push_back(std::move(mapping));
  }
  return all;
}

std::string program_of(pid_t process) {
  std::error_code failure;
  const fs::path program = fs::read_symlink(fmt::format("/proc/{}/exe", process), failure);
  return failure ? std::string{} : program.string();
}

std::string name_of(pid_t process, pid_t thread) {
  return first_line_of(fmt::format("/proc/{}/task/{}/comm", process, thread));
}

std::string command_of(pid_t process) {
  std::string command;
  for (const std::string& word : texts_in(fmt::format("/proc/{}/cmdline", process)))
    command += (command.empty() ? "" : " ") + word;
  return command;
}

std::optional<std::string> variable_of(pid_t process, std::string_view name) {
  for (const std::string& variable : texts_in(fmt::format("/proc/{}/environ", process))) {
    const std::size_t end = variable.find('=');
    if (end != std::string::npos && std::string_view(variable).substr(0, end) == name)
      return variable.substr(end + 1);
  }
  return std::nullopt;
}

thread_state state_of(pid_t process, pid_t thread) {
  const process_status status = read_status(fmt::format("/proc/{}/task/{}/stat", process, thread));
  return {status.state, status.processor};
}

} // namespace farcall::tool
