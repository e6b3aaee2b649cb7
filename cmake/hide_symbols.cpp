// SPDX-License-Identifier: Apache-2.0

// Hides the C++ symbols of farcall in a static library, as the compiler's option
// -fvisibility=hidden does. Usage: hide_symbols <archive>
//
// The shared library and the static library consist of the same objects, which are compiled with
// exported symbols for the shared library. A program or plug-in that contains the static library
// must not export them.

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <ar.h>
#include <elf.h>
#include <link.h>

namespace {

/// Returns a reference to the structure at an offset. Throws std::runtime_error at the end of the
/// bytes.
template <class T>
T& at(std::span<char> bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    throw std::runtime_error("an object in it ends early");
  return *reinterpret_cast<T*>(bytes.data() + offset);
}

/// True for a mangled name in which the namespace farcall occurs. Names of the C interface begin
/// with `fc_`, and stay visible.
bool is_hidden(std::string_view name) { return name.find("farcall") != std::string_view::npos; }

/// Hides the symbols of one object. Returns their number.
std::size_t hide(std::span<char> object) {
  const auto& header = at<ElfW(Ehdr)>(object, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto& section = at<ElfW(Shdr)>(object, header.e_shoff + i * sizeof(ElfW(Shdr)));
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto& names =
        at<ElfW(Shdr)>(object, header.e_shoff + section.sh_link * sizeof(ElfW(Shdr)));
    // Skip the local symbols, which come before sh_info.
    for (std::size_t s = section.sh_info; s < section.sh_size / sizeof(ElfW(Sym)); ++s) {
      auto& symbol = at<ElfW(Sym)>(object, section.sh_offset + s * sizeof(ElfW(Sym)));
      const char* const name = &at<char>(object, names.sh_offset + symbol.st_name);
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_VISIBILITY(symbol.st_other) != STV_DEFAULT)
        continue;
      if (!is_hidden(name)) continue;
      symbol.st_other = static_cast<unsigned char>(symbol.st_other | STV_HIDDEN);
      ++hidden;
    }
  }
  return hidden;
}

std::size_t hide_in_archive(std::span<char> archive) {
  if (archive.size() < SARMAG || std::memcmp(archive.data(), ARMAG, SARMAG) != 0)
    throw std::runtime_error("it is no archive of objects");
  std::size_t hidden = 0;
  for (std::size_t offset = SARMAG; offset < archive.size();) {
    const auto& member = at<ar_hdr>(archive, offset);
    const std::size_t length = std::stoul(std::string(member.ar_size, sizeof(member.ar_size)));
    offset += sizeof(ar_hdr);
    if (length > archive.size() - offset) throw std::runtime_error("it ends early");
    // Skip the archive's table of symbols ("/") and its table of long names ("//"). A slash with a
    // digit begins the reference to a long name.
    const bool is_table =
        member.ar_name[0] == '/' && (member.ar_name[1] < '0' || member.ar_name[1] > '9');
    if (!is_table && length >= sizeof(ElfW(Ehdr))) hidden += hide(archive.subspan(offset, length));
    offset += length + length % 2;
  }
  return hidden;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: hide_symbols <archive>\n", stderr);
    return 2;
  }
  try {
    std::ifstream in(argv[1], std::ios::binary);
    std::string content{std::istreambuf_iterator<char>(in), {}};
    if (!in) throw std::runtime_error("it cannot be read");
    if (hide_in_archive(content) == 0) return 0;
    std::ofstream out(argv[1], std::ios::binary);
    out << content << std::flush;
    if (!out) throw std::runtime_error("it cannot be written");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hide_symbols: %s: %s\n", argv[1], e.what());
    return 1;
  }
}
