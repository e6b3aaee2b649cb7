// SPDX-License-Identifier: Apache-2.0
#include "modules.hpp"

#include "perf_map.hpp"
#include "processes.hpp"

#include <farcall/base/memory_file.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::string_view deleted_mark = " (deleted)";
/// Name by which a mapping list shows the vDSO, which is the library that the kernel maps into each
/// program. It contains clock_gettime(), for example.
constexpr std::string_view kernels_library = "[vdso]";
/// Highest address of a 32-bit program. Such a program has a different vDSO than this process, so
/// its vDSO is not read.
constexpr std::uint64_t last_of_32_bits = 0xffffffff;

/// Opens a regular file. Other files are not opened, because opening a device may have side
/// effects. `inode` must be the file's inode number, or 0 to accept any file.
unique_fd open_file(const std::string& path, std::uint64_t inode) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (inode != 0 && status.st_ino != inode) return {};
  return unique_fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

/// Opens the file of a mapping. If `is_deleted`, the file was deleted, and another file may have
/// its path and even its inode number now.
unique_fd open_mapped(pid_t process, const map_record& mapping, bool is_deleted) {
  const std::string below_root = fmt::format("/proc/{}/root{}", process, mapping.path);
  // Prefer a file that has the mapping's inode number. A file with another number is accepted only
  // at the end, because overlay file systems may report other inode numbers than the kernel reports
  // for the mapping.
  if (!is_deleted) {
    if (auto file = open_file(below_root, mapping.inode)) return file;
  }
  const std::string mapped = fmt::format("/proc/{}/map_files/{:x}-{:x}", process, mapping.start,
                                         mapping.start + mapping.bytes);
  if (auto file = open_file(mapped, 0)) return file;
  // Try the file of the program that the process runs, because the user may read this file even
  // after it was deleted or replaced.
  const std::string program = program_of(process);
  if (program == mapping.path || program == mapping.path + std::string(deleted_mark)) {
    if (auto file = open_file(fmt::format("/proc/{}/exe", process), 0)) return file;
  }
  if (is_deleted) return {};
  if (auto file = open_file(mapping.path, mapping.inode)) return file;
  if (auto file = open_file(below_root, 0)) return file;
  return open_file(mapping.path, 0);
}

/// Copies this process's vDSO from memory, because all programs of this machine have the same vDSO.
/// Returns an empty descriptor if the copy fails.
unique_fd copy_of_kernels_library() {
  const auto start = static_cast<std::uint64_t>(getauxval(AT_SYSINFO_EHDR));
  if (start == 0) return {};
  const std::vector<map_record> own = mappings_of(getpid());
  const auto at = std::ranges::find(own, start, &map_record::start);
  unique_fd copy(make_memory_file("farcall-vdso", MFD_CLOEXEC));
  if (at == own.end() || !copy) return {};
  const void* const bytes = reinterpret_cast<const void*>(start);
  const auto written = write(copy.get(), bytes, at->bytes);
  return written == static_cast<ssize_t>(at->bytes) ? std::move(copy) : unique_fd();
}

} // namespace

bool is_anonymous(const map_record& mapping) {
  return mapping.path.empty() || mapping.path == "//anon" || mapping.path == "[heap]" ||
         mapping.path.starts_with("[anon");
}

std::uint32_t modules::add_perf_map(pid_t process) {
  const auto place = static_cast<std::uint32_t>(all_.size());
  const auto [at, is_new] = places_.try_emplace(key(perf_map_path(process), 0, 0), place);
  if (is_new) {
    all_.emplace_back();
    without_maps_.emplace_back(process, place);
  }
  look_for_perf_maps();
  return at->second;
}

void modules::look_for_perf_maps() {
  std::erase_if(without_maps_, [this](const auto& of) {
    unique_fd file = open_perf_map(of.first);
    if (!file) return false;
    all_[of.second] = {perf_map_path(of.first), std::move(file)};
    return true;
  });
}

std::uint32_t modules::add(pid_t process, const map_record& mapping) {
  const bool is_kernels = mapping.path == kernels_library && mapping.start > last_of_32_bits;
  // Anonymous memory may hold code that the process has compiled, so its file is the perf_map of
  // the process.
  if (is_anonymous(mapping)) return add_perf_map(process);
  if (!is_kernels && (!mapping.path.starts_with('/') || mapping.path.starts_with("//")))
    return none;
  map_record of_file = mapping;
  const bool is_deleted = of_file.path.ends_with(deleted_mark);
  if (is_deleted) of_file.path.resize(of_file.path.size() - deleted_mark.size());
  const auto [at, is_new] = places_.try_emplace(key(of_file.path, of_file.device, of_file.inode),
                                                static_cast<std::uint32_t>(all_.size()));
  if (is_new) {
    all_.push_back({of_file.path, is_kernels ? copy_of_kernels_library()
                                             : open_mapped(process, of_file, is_deleted)});
  } else if (!all_[at->second].file && !is_kernels) {
    all_[at->second].file = open_mapped(process, of_file, is_deleted);
  }
  return at->second;
}

void address_space::add(const mapping& made) {
  if (made.start >= made.end) return;
  static unsigned latest = 0;
  version_ = ++latest;
  auto at = mappings_.lower_bound(made.start);
  if (at != mappings_.begin() && std::prev(at)->second.end > made.start) {
    mapping& before = std::prev(at)->second;
    if (before.end > made.end) {
      mapping behind = before;
      behind.file_offset += made.end - behind.start;
      behind.start = made.end;
      mappings_.emplace(behind.start, behind);
    }
    before.end = made.start;
  }
  at = mappings_.lower_bound(made.start);
  while (at != mappings_.end() && at->second.start < made.end) {
    mapping old = at->second;
    at = mappings_.erase(at);
    if (old.end <= made.end) continue;
    old.file_offset += made.end - old.start;
    old.start = made.end;
    mappings_.emplace(old.start, old);
  }
  mappings_.emplace(made.start, made);
}

const address_space::mapping* address_space::find(std::uint64_t address) const {
  auto at = mappings_.upper_bound(address);
  if (at == mappings_.begin()) return nullptr;
  --at;
  return address < at->second.end ? &at->second : nullptr;
}

} // namespace farcall::tool
