// SPDX-License-Identifier: Apache-2.0
#include "loaded_module.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

struct mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string identity; // "device inode" of the mapped file; empty if no file is mapped
  std::string path;
};

std::string folder_of(pid_t process) {
  return "/proc/" + (process == 0 ? std::string("self") : std::to_string(process));
}

/// Returns the memory mappings of a process from /proc. Each line has the format "begin-end
/// permissions offset device inode path".
std::vector<mapping> mappings_of(pid_t process) {
  std::ifstream lines(folder_of(process) + "/maps");
  std::vector<mapping> all;
  for (std::string line; std::getline(lines, line);) {
    mapping m;
    unsigned major = 0;
    unsigned minor = 0;
    unsigned long long begin = 0;
    unsigned long long end = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %*s %*s %x:%x %llu", &begin, &end, &major, &minor,
                    &inode) != 5) {
      continue;
    }
    m.begin = begin;
    m.end = end;
    if (inode != 0) {
      m.identity =
          std::to_string(major) + ':' + std::to_string(minor) + ' ' + std::to_string(inode);
    }
    if (const std::size_t path = line.find('/'); path != std::string::npos)
      m.path = line.substr(path);
    all.push_back(std::move(m));
  }
  return all;
}

const mapping* mapping_at(const std::vector<mapping>& all, std::uint64_t address) {
  const auto found = std::find_if(all.begin(), all.end(), [address](const mapping& m) {
    return m.begin <= address && address < m.end;
  });
  return found == all.end() ? nullptr : &*found;
}

loaded_module described(const dl_phdr_info& info) {
  loaded_module m;
  m.file = info.dlpi_name == nullptr || *info.dlpi_name == '\0' ? "/proc/self/exe" : info.dlpi_name;
  m.load_bias = info.dlpi_addr;
  m.begin = std::numeric_limits<std::uint64_t>::max();
  for (int index = 0; index < info.dlpi_phnum; ++index) {
    const auto& segment = info.dlpi_phdr[index];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t from = info.dlpi_addr + segment.p_vaddr;
    m.begin = std::min(m.begin, from);
    m.end = std::max(m.end, from + segment.p_memsz);
  }
  return m;
}

bool contains(const dl_phdr_info& info, std::uint64_t address) {
  for (int index = 0; index < info.dlpi_phnum; ++index) {
    const auto& segment = info.dlpi_phdr[index];
    const std::uint64_t from = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && from <= address && address < from + segment.p_memsz)
      return true;
  }
  return false;
}

struct search {
  const std::uint64_t* address; // all modules if null
  std::vector<loaded_module> found;
};

int look_at(dl_phdr_info* info, std::size_t /*size*/, void* raw) {
  auto& wanted = *static_cast<search*>(raw);
  if (wanted.address != nullptr && !contains(*info, *wanted.address)) return 0;
  wanted.found.push_back(described(*info));
  return wanted.address == nullptr ? 0 : 1;
}

/// Adds the identity of the mapped file, and replaces a relative file name by the path of the
/// mapping. The loader keeps relative names, but the working directory may have changed since the
/// library was loaded.
void complete(loaded_module& m, const std::vector<mapping>& mappings) {
  const mapping* const first = mapping_at(mappings, m.begin);
  if (first != nullptr) m.identity = first->identity;
  if (m.file.front() == '/') return;
  m.file = first == nullptr ? std::string() : first->path;
}

std::vector<loaded_module> modules_at(const std::uint64_t* address) {
  search wanted{address, {}};
  ::dl_iterate_phdr(look_at, &wanted);
  const std::vector<mapping> mappings = mappings_of(0);
  for (loaded_module& m : wanted.found)
    complete(m, mappings);
  // The vDSO has no file.
  std::erase_if(wanted.found, [](const loaded_module& m) { return m.file.empty(); });
  return std::move(wanted.found);
}

/// Returns device and inode of a file as /proc/self/maps shows them. stat() is not used, because it
/// returns other numbers on overlay file systems.
std::string identity_of(int file) {
  constexpr std::size_t page = 4096;
  void* const at = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file, 0);
  if (at == MAP_FAILED) return {};
  const std::vector<mapping> mappings = mappings_of(0);
  const mapping* const own = mapping_at(mappings, reinterpret_cast<std::uint64_t>(at));
  std::string identity = own == nullptr ? std::string() : own->identity;
  ::munmap(at, page);
  return identity;
}

/// Opens the file if its identity matches, or if `identity` is empty. Returns -1 otherwise.
int open_if_same(const std::string& name, const std::string& identity) {
  struct stat status{};
  // Refuse files that are not regular, because opening a device or a pipe may have side effects.
  if (::stat(name.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return -1;
  const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0 || identity.empty() || identity_of(file) == identity) return file;
  ::close(file);
  return -1;
}

/// Opens the file with this identity if the process has it open. Returns -1 otherwise.
int open_by_descriptor(pid_t process, const std::string& identity) {
  std::error_code error;
  const std::filesystem::directory_iterator all(folder_of(process) + "/fd", error);
  if (error) return -1;
  for (auto at = begin(all); at != end(all); at.increment(error)) {
    if (const int file = open_if_same(at->path().string(), identity); file >= 0) return file;
    if (error) break;
  }
  return -1;
}

} // namespace

std::optional<loaded_module> module_of(const void* address) {
  const auto number = reinterpret_cast<std::uint64_t>(address);
  std::vector<loaded_module> found = modules_at(&number);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<loaded_module> loaded_modules() { return modules_at(nullptr); }

int open_mapped_file(pid_t process, std::uint64_t address, const std::string& name) {
  const std::vector<mapping> mappings = mappings_of(process);
  const mapping* const at = mapping_at(mappings, address);
  if (at == nullptr || at->identity.empty()) return open_if_same(name, {});
  if (const int file = open_if_same(name, at->identity); file >= 0) return file;
  if (const int file = open_by_descriptor(process, at->identity); file >= 0) return file;
  char range[64];
  std::snprintf(range, sizeof range, "/map_files/%llx-%llx",
                static_cast<unsigned long long>(at->begin),
                static_cast<unsigned long long>(at->end));
  return open_if_same(folder_of(process) + range, at->identity);
}

} // namespace farcall::veo
