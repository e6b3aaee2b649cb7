// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/available.hpp>

#include <algorithm>
#include <fstream>
#include <string>

namespace farcall {
namespace {

using std::filesystem::path;

std::optional<std::uint64_t> number_in(const path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt; // the file is missing, or its text is "max", which means no limit
}

/// Adds the numbers of the two lines with these names. Each line of the file has a name and a
/// number.
std::uint64_t sum_in(const path& file, const std::string& first, const std::string& second) {
  std::ifstream in(file);
  std::uint64_t sum = 0;
  std::uint64_t value = 0;
  for (std::string name; in >> name >> value;) {
    if (name == first || name == second) sum += value;
  }
  return sum;
}

/// Names of the files of a control group, which differ between versions 1 and 2 of control groups.
struct group_files {
  const char* limit;
  const char* used;
  const char* inactive_cache;
  const char* active_cache;
};
constexpr group_files version_1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file", "total_active_file"};
constexpr group_files version_2{"memory.max", "memory.current", "inactive_file", "active_file"};

/// Returns the bytes of memory that a control group, and all groups above it, still allow. `group`
/// may be a path outside this process's namespace of control groups. Then folders are missing below
/// `mount`, and the files in `mount` itself describe the namespace's own group.
std::uint64_t space_in(const path& mount, const path& group, const group_files& files) {
  std::uint64_t space = UINT64_MAX;
  for (path at = group.relative_path();; at = at.parent_path()) {
    const path folder = mount / at;
    const auto limit = number_in(folder / files.limit);
    const auto used = number_in(folder / files.used);
    if (limit && used) {
      const std::uint64_t cached =
          sum_in(folder / "memory.stat", files.inactive_cache, files.active_cache);
      const std::uint64_t kept = *used - std::min(*used, cached);
      space = std::min(space, *limit - std::min(*limit, kept));
    }
    if (at.empty()) return space;
  }
}

std::uint64_t space_in_groups(const path& root) {
  const path mount = root / "sys/fs/cgroup";
  std::uint64_t space = UINT64_MAX;
  std::ifstream groups(root / "proc/self/cgroup");
  // Each line has the form "number:controllers:path". The list of controllers is empty in version
  // 2.
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const path group = line.substr(second + 1);
    if (controllers == ",,") {
      space = std::min(space, space_in(mount, group, version_2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      space = std::min(space, space_in(mount / "memory", group, version_1));
    }
  }
  return space;
}

} // namespace

std::optional<std::uint64_t> available_memory(const path& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  for (std::string name, unit; meminfo >> name;) {
    std::uint64_t kib = 0;
    meminfo >> kib;
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") return std::min(kib * 1024, space_in_groups(root));
  }
  const std::uint64_t space = space_in_groups(root);
  return space == UINT64_MAX ? std::nullopt : std::optional(space);
}

} // namespace farcall
