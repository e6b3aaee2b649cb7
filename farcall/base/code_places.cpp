// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/code_places.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

/// An ELF file, mapped into memory, of the same word size as this process.
class mapped_image {
 public:
  explicit mapped_image(const char* path) noexcept {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat status{};
    if (::fstat(file, &status) == 0 && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), size};
    }
    ::close(file);
  }

  /// Sets the symbols of the places, which are all in this file and sorted by `in_file`.
  void name(std::span<code_place* const> places) const noexcept {
    ElfW(Shdr) symbols{};
    ElfW(Shdr) names{};
    if (places.empty() || !find_symbol_table(symbols, names)) return;
    const std::uintptr_t first = places.front()->in_file;
    const std::uintptr_t last = places.back()->in_file;
    const char* at = bytes_.data() + symbols.sh_offset;
    const char* const end = at + symbols.sh_size / sizeof(ElfW(Sym)) * sizeof(ElfW(Sym));
    for (; at != end; at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, at, sizeof symbol);
      // Skip symbols that are outside the range of the places.
      if (symbol.st_value > last || symbol.st_value + symbol.st_size <= first) continue;
      // The macro ELF64_ST_TYPE is also right for 32-bit files, because the type of a symbol has
      // the same bits there.
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= names.sh_size) continue;
      for (code_place* const p : places) {
        if (p->in_file - symbol.st_value >= symbol.st_size || !p->symbol.empty()) continue;
        const char* const name = bytes_.data() + names.sh_offset + symbol.st_name;
        p->symbol = {name, ::strnlen(name, names.sh_size - symbol.st_name)};
      }
    }
  }

 private:
  [[nodiscard]] bool holds(const ElfW(Shdr) & section) const noexcept {
    return section.sh_offset <= bytes_.size() &&
           section.sh_size <= bytes_.size() - section.sh_offset;
  }
  template <class T>
  [[nodiscard]] bool read(std::uint64_t offset, T& value) const noexcept {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return true;
  }
  /// Prefers the table of all symbols to the table that has only exported symbols.
  bool find_symbol_table(ElfW(Shdr) & symbols, ElfW(Shdr) & names) const noexcept {
    ElfW(Ehdr) head;
    if (!read(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
    bool found = false;
    for (std::size_t i = 0; i != head.e_shnum; ++i) {
      ElfW(Shdr) section;
      if (!read(head.e_shoff + i * sizeof section, section)) break;
      const bool is_whole = section.sh_type == SHT_SYMTAB;
      if (!is_whole && (found || section.sh_type != SHT_DYNSYM)) continue;
      ElfW(Shdr) text;
      if (!read(head.e_shoff + std::uint64_t{section.sh_link} * sizeof text, text)) continue;
      if (!holds(section) || !holds(text)) continue;
      symbols = section;
      names = text;
      found = true;
      if (is_whole) break;
    }
    return found;
  }

  std::string_view bytes_;
};

bool are_in_one_file(const code_place& a, const code_place& b) noexcept {
  return a.file != nullptr && b.file != nullptr && std::strcmp(a.file, b.file) == 0;
}

} // namespace

code_place find_code(std::uintptr_t address) noexcept {
  void* const at = reinterpret_cast<void*>(address);
  const link_map* module = nullptr;
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
  // Use _dl_find_object(), because it takes no lock of the dynamic linker. A thread that was
  // stopped before may hold such a lock.
  dl_find_object found{};
  if (::_dl_find_object(at, &found) != 0) return {.address = address};
  module = found.dlfo_link_map;
#define FARCALL_FINDS_OBJECTS
#endif
#endif
#ifndef FARCALL_FINDS_OBJECTS
  Dl_info info{};
  void* map = nullptr;
  if (::dladdr1(at, &info, &map, RTLD_DL_LINKMAP) == 0) return {.address = address};
  module = static_cast<const link_map*>(map);
#endif
  if (module == nullptr) return {.address = address};
  return {.address = address, .file = module->l_name, .in_file = address - module->l_addr};
}

void find_symbols(std::span<code_place> places) noexcept {
  std::array<code_place*, 64> in_file{};
  for (std::size_t i = 0; i != places.size(); ++i) {
    const code_place& first = places[i];
    const auto is_there = [&](const code_place& p) { return are_in_one_file(first, p); };
    const auto here = places.begin() + static_cast<std::ptrdiff_t>(i);
    if (first.file == nullptr || std::any_of(places.begin(), here, is_there)) continue;
    std::size_t n = 0;
    for (code_place& p : places.subspan(i)) {
      if (n != in_file.size() && is_there(p)) in_file[n++] = &p;
    }
    const std::span<code_place*> all(in_file.data(), n);
    std::sort(all.begin(), all.end(),
              [](const code_place* a, const code_place* b) { return a->in_file < b->in_file; });
    mapped_image(*first.file == '\0' ? "/proc/self/exe" : first.file).name(all);
  }
}

} // namespace farcall
