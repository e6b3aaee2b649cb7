#include "loaded_module.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <limits>

#include <link.h>

namespace farcall::veo {
namespace {

struct search {
  std::uint64_t address;
  bool found;
  const char* file;
  loaded_module module;
};

int look_at(dl_phdr_info* info, std::size_t /*size*/, void* raw) {
  auto& wanted = *static_cast<search*>(raw);
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
  bool contains = false;
  for (int index = 0; index < info->dlpi_phnum; ++index) {
    const auto& segment = info->dlpi_phdr[index];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t from = info->dlpi_addr + segment.p_vaddr;
    const std::uint64_t to = from + segment.p_memsz;
    begin = std::min(begin, from);
    end = std::max(end, to);
    contains = contains || (from <= wanted.address && wanted.address < to);
  }
  if (!contains) return 0;
  wanted.found = true;
  wanted.file = info->dlpi_name;
  wanted.module.load_bias = info->dlpi_addr;
  wanted.module.begin = begin;
  wanted.module.end = end;
  return 1;
}

/// The loader keeps names as it was given them, and the working directory may have changed since.
std::string file_mapped_at(std::uint64_t address) {
  std::ifstream mappings("/proc/self/maps");
  std::string line;
  while (std::getline(mappings, line)) {
    char* after = nullptr;
    const std::uint64_t begin = std::strtoull(line.c_str(), &after, 16);
    if (*after != '-') continue;
    const std::uint64_t end = std::strtoull(after + 1, nullptr, 16);
    if (address < begin || end <= address) continue;
    const std::size_t path = line.find('/');
    return path == std::string::npos ? std::string() : line.substr(path);
  }
  return {};
}

} // namespace

std::optional<loaded_module> module_of(const void* address) {
  search wanted{reinterpret_cast<std::uint64_t>(address), false, nullptr, {}};
  ::dl_iterate_phdr(look_at, &wanted);
  if (!wanted.found) return std::nullopt;
  const bool is_program = wanted.file == nullptr || *wanted.file == '\0';
  wanted.module.file = is_program ? "/proc/self/exe" : wanted.file;
  if (wanted.module.file.front() != '/') wanted.module.file = file_mapped_at(wanted.address);
  if (wanted.module.file.empty()) return std::nullopt;
  return wanted.module;
}

} // namespace farcall::veo
