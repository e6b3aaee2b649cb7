// SPDX-License-Identifier: Apache-2.0
#include "openmp_plugin.hpp"
#include "outcome.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include <elf.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall::tool {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view library_prefix = "libomptarget.so";
constexpr std::array supported_versions = {"15", "16"};

/// Reads values of an ELF file at offsets, which are checked.
class elf_bytes {
 public:
  elf_bytes(std::string name, std::string content)
      : name_(std::move(name)), content_(std::move(content)) {}

  template <class T>
  [[nodiscard]] T at(std::uint64_t offset) const {
    require(offset, sizeof(T));
    T value{};
    std::memcpy(&value, content_.data() + offset, sizeof value);
    return value;
  }

  [[nodiscard]] std::string text_at(std::uint64_t offset) const {
    require(offset, 1);
    const std::size_t end = content_.find('\0', offset);
    require(end, 1);
    return content_.substr(offset, end - offset);
  }

  [[nodiscard]] bool is_for_this_machine() const {
    if (content_.size() < sizeof(Elf64_Ehdr)) return false;
    const auto header = at<Elf64_Ehdr>(0);
    return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_phentsize == sizeof(Elf64_Phdr);
  }

 private:
  void require(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > content_.size() || bytes > content_.size() - offset)
      throw failed_run(
          fmt::format("{}: the program's tables lie outside the file; link it again", name_));
  }

  std::string name_;
  std::string content_;
};

std::vector<Elf64_Phdr> program_headers(const elf_bytes& file) {
  const auto header = file.at<Elf64_Ehdr>(0);
  std::vector<Elf64_Phdr> all;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i)
    all.push_back(file.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
  return all;
}

/// Returns the offset in the file of an address in memory. Returns the maximum, which is beyond the
/// end of the file, if no part of the file is loaded there.
std::uint64_t offset_of(std::uint64_t address, std::span<const Elf64_Phdr> headers) {
  for (const Elf64_Phdr& h : headers) {
    if (h.p_type == PT_LOAD && address >= h.p_vaddr && address - h.p_vaddr < h.p_filesz)
      return h.p_offset + (address - h.p_vaddr);
  }
  return UINT64_MAX;
}

/// Returns the name of the plugin, under which libomptarget looks for the packaged one, too.
std::string plugin_name() {
  utsname system{};
  if (::uname(&system) != 0) return {};
  return fmt::format("libomptarget.rtl.{}.so", system.machine);
}

} // namespace

openmp_files find_openmp_plugin() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path target = folder / "farcall-openmp-target";
  // The first place is in an installation, and the second one in a build tree.
  for (const char* const place : {FARCALL_IO_FROM_PROGRAM, "../lib"}) {
    const fs::path found = (folder / place / "farcall" / "openmp").lexically_normal();
    // CMake makes the folder before it builds the plugin. Without the plugin, libomptarget would
    // load the packaged one, and run all regions in the host's process.
    if (fs::exists(found / plugin_name()) && fs::exists(target))
      return {found.string(), target.string()};
  }
  throw failed_run(fmt::format("there is no {}: install libffi-dev, and build and install farcall "
                               "again",
                               target.string()));
}

std::vector<std::string> find_omptargets() {
  std::vector<std::string> found;
  for (const char* const version : supported_versions) {
    const std::string file =
        fmt::format("/usr/lib/llvm-{}/lib/{}.{}", version, library_prefix, version);
    if (fs::exists(file)) found.push_back(file);
  }
  return found;
}

std::vector<std::string> needed_libraries(const std::string& file) {
  std::ifstream stream{file, std::ios::binary};
  const elf_bytes elf(file, {std::istreambuf_iterator<char>(stream), {}});
  if (!elf.is_for_this_machine()) return {};
  const auto headers = program_headers(elf);
  const auto dynamic = std::find_if(headers.begin(), headers.end(),
                                    [](const Elf64_Phdr& h) { return h.p_type == PT_DYNAMIC; });
  if (dynamic == headers.end()) return {};
  std::vector<std::uint64_t> names;
  std::uint64_t texts = 0;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = elf.at<Elf64_Dyn>(dynamic->p_offset + at);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) texts = offset_of(entry.d_un.d_ptr, headers);
  }
  std::vector<std::string> libraries;
  for (const std::uint64_t name : names)
    libraries.push_back(elf.text_at(texts + name));
  return libraries;
}

std::string omptarget_version(const std::string& program,
                              const std::vector<std::string>& libraries) {
  const auto found = std::find_if(libraries.begin(), libraries.end(), [](const std::string& name) {
    return name.starts_with(library_prefix);
  });
  if (found == libraries.end()) return {};
  std::string version = found->substr(std::min(found->size(), library_prefix.size() + 1));
  if (std::find(supported_versions.begin(), supported_versions.end(), version) ==
      supported_versions.end()) {
    throw usage_problem(fmt::format("{} uses {}, and there are plugins for libomptarget.so.15 and "
                                    ".16 only; give a program that "
                                    "clang-15 or clang-16 has compiled",
                                    program, *found));
  }
  return version;
}

std::string path_with(std::string_view folder, std::string_view path) {
  return path.empty() ? std::string(folder) : fmt::format("{}:{}", folder, path);
}

} // namespace farcall::tool
