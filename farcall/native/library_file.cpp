// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <farcall/native/library_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::native {
namespace {

template <class T>
bool read_at(int fd, std::uint64_t offset, T& to) {
  return ::pread(fd, &to, sizeof to, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof to);
}

std::string text_of_machine(unsigned machine) {
  constexpr unsigned vector_engine = 251; // EM_VE, missing in some <elf.h>
  return machine == vector_engine
             ? "NEC's Vector Engine"
             : "another processor (ELF machine " + std::to_string(machine) + ")";
}

unsigned own_machine() {
  const unique_fd own(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ElfW(Ehdr) header;
  return own.get() >= 0 && read_at(own.get(), 0, header) ? header.e_machine : unsigned{EM_NONE};
}

} // namespace

std::string damage_of_library(const char* file, std::string_view advice) {
  const unique_fd fd(::open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  ElfW(Ehdr) header;
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !read_at(fd.get(), 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  // Report a file for another processor, because the loader skips such a file and reports that no
  // file was found.
  if (const unsigned own = own_machine(); own != EM_NONE && header.e_machine != own) {
    return "it was built for " + text_of_machine(header.e_machine) + std::string(advice);
  }
  if (header.e_phentsize != sizeof(ElfW(Phdr))) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    const std::uint64_t at = header.e_phoff + i * sizeof part;
    if (at >= size || !read_at(fd.get(), at, part)) {
      return "the file is truncated: it ends before its program headers";
    }
    if (part.p_type != PT_LOAD) continue;
    if (part.p_offset > size || part.p_filesz > size - part.p_offset) {
      return "the file is truncated: it has " + std::to_string(size) + " bytes, and shall have " +
             std::to_string(part.p_offset + part.p_filesz) + " at least";
    }
  }
  return {};
}

std::string last_loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "the loader gives no reason" : text;
}

std::string find_in_folders(const char* list, const std::string& name) {
  std::istringstream folders(list == nullptr ? "" : list);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder + "/" + name;
    if (!folder.empty() && ::access(file.c_str(), R_OK) == 0) return file;
  }
  return {};
}

void* open_library_file(const char* file, int flags, std::string_view advice, std::string& why) {
  // Check only names with a folder, because the loader itself searches for other names.
  const bool has_folder = std::strchr(file, '/') != nullptr;
  why = has_folder ? damage_of_library(file, advice) : "";
  if (!why.empty()) return nullptr;
  if (void* library = ::dlopen(file, flags)) return library;
  why = last_loader_error();
  if (has_folder) return nullptr;
  // Report a damaged file in the loader's search path, because the loader skips files for other
  // processors without an error.
  const std::string found = find_in_folders(std::getenv("LD_LIBRARY_PATH"), file);
  const std::string damage = found.empty() ? "" : damage_of_library(found.c_str(), advice);
  if (!damage.empty()) why += "; of " + found + ": " + damage;
  return nullptr;
}

} // namespace farcall::native
