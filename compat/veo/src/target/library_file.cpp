#include "library_file.hpp"

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

template <class T>
bool read_at(int fd, std::uint64_t offset, T& to) {
  return ::pread(fd, &to, sizeof to, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof to);
}

} // namespace

std::string damage_of_library(const char* file) {
  const unique_fd fd(::open(file, O_RDONLY | O_CLOEXEC));
  struct stat status{};
  ElfW(Ehdr) header;
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !read_at(fd.get(), 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr))) {
    return {};
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    const std::uint64_t at = header.e_phoff + i * sizeof part;
    if (at >= size || !read_at(fd.get(), at, part)) {
      return "the file is cut off: it ends before its program headers";
    }
    if (part.p_type != PT_LOAD) continue;
    if (part.p_offset > size || part.p_filesz > size - part.p_offset) {
      return "the file is cut off: it has " + std::to_string(size) + " bytes, and shall have " +
             std::to_string(part.p_offset + part.p_filesz) + " at least";
    }
  }
  return {};
}

} // namespace farcall::veo
