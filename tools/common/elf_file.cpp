// SPDX-License-Identifier: Apache-2.0
#include "elf_file.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// Maximum number of bytes of a table. Real tables are smaller, but a sparse file may claim any
/// size.
constexpr std::uint64_t max_table = std::uint64_t{1} << 30;
/// Maximum number of bytes of notes that are read from a file. The limit is needed because many
/// sections of a damaged file may refer to the same notes.
constexpr std::uint64_t max_notes = 1 << 20;
constexpr std::uint64_t max_link = 4096;
/// Maximum number of bytes of the name of a called function. Longer names are truncated, because
/// the name is copied for each of the linker's call stubs (PLT).
constexpr std::size_t longest_call = 4096;
constexpr std::size_t max_sections = 1 << 20;
/// Maximum number of functions that a lookup visits. Functions may overlap, because compilers move
/// cold parts of a function to another place.
constexpr int max_overlapping = 8;

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// Returns the zero-terminated text at `at`, truncated to `longest` bytes.
std::string_view text_at(std::span<const std::byte> bytes, std::uint64_t at, std::size_t longest) {
  if (at >= bytes.size()) return {};
  const auto rest = bytes.subspan(static_cast<std::size_t>(at));
  const std::string_view text(reinterpret_cast<const char*>(rest.data()),
                              std::min(rest.size(), longest));
  return text.substr(0, text.find('\0'));
}

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; }

bool is_of_this_machine(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  constexpr unsigned char order =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (header.e_ident[EI_DATA] != order || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
#if defined(__x86_64__)
  return header.e_machine == EM_X86_64;
#elif defined(__aarch64__)
  return header.e_machine == EM_AARCH64;
#elif defined(__riscv)
  return header.e_machine == EM_RISCV;
#else
  return false;
#endif
}

} // namespace

elf_file::elf_file(int file) : file_(file) {
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0) return;
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  const auto start = read(0, sizeof(Elf64_Ehdr));
  if (start.empty()) return;
  const auto header = value_at<Elf64_Ehdr>(start, 0);
  if (!is_of_this_machine(header)) return;
  if (header.e_phentsize == sizeof(Elf64_Phdr)) read_segments(header.e_phoff, header.e_phnum);
  if (header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shoff != 0) {
    std::size_t count = header.e_shnum;
    std::size_t names = header.e_shstrndx;
    // The file's header has no space for a large number of sections, or a large index of the
    // section with their names. Such values are in the first section header.
    if (const auto first = read(header.e_shoff, sizeof(Elf64_Shdr)); !first.empty()) {
      const auto extended = value_at<Elf64_Shdr>(first, 0);
      if (count == 0) count = static_cast<std::size_t>(extended.sh_size);
      if (names == SHN_XINDEX) names = extended.sh_link;
    }
    read_sections(header.e_shoff, count, names);
  }
}

std::vector<std::byte> elf_file::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > file_bytes_ || bytes > file_bytes_ - offset || bytes > max_table) return {};
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  for (std::size_t at = 0; at < data.size();) {
    const ssize_t got =
        pread(file_, data.data() + at, data.size() - at, static_cast<off_t>(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    at += static_cast<std::size_t>(got);
  }
  return data;
}

void elf_file::read_segments(std::uint64_t offset, std::size_t count) {
  const auto bytes = read(offset, count * sizeof(Elf64_Phdr));
  if (bytes.empty()) return;
  for (std::size_t i = 0; i < count; ++i) {
    const auto header = value_at<Elf64_Phdr>(bytes, i);
    if (header.p_type == PT_LOAD)
      segments_.push_back({header.p_offset, header.p_filesz, header.p_vaddr});
    if (header.p_type == PT_NOTE) read_notes(header.p_offset, header.p_filesz);
  }
}

void elf_file::read_sections(std::uint64_t offset, std::size_t count, std::size_t names) {
  if (count > max_sections) return;
  const auto bytes = read(offset, count * sizeof(Elf64_Shdr));
  if (bytes.empty()) return;
  for (std::size_t i = 0; i < count; ++i) {
    const auto header = value_at<Elf64_Shdr>(bytes, i);
    sections_.push_back({header.sh_name, header.sh_type, header.sh_link, header.sh_addr,
                         header.sh_offset, header.sh_size, header.sh_entsize});
  }
  std::vector<std::byte> texts;
  if (names < count) {
    texts = read(sections_[names].offset, sections_[names].bytes);
    for (const section& s : sections_) {
      // Read at most 32 bytes of a section's name, which are enough to recognise the names below.
      const std::string_view name = text_at(texts, s.name, 32);
      if (name == ".debug_info" && s.type != SHT_NOBITS) has_debug_information_ = true;
      if (name == ".gnu_debuglink" && debug_link_.empty() && s.bytes <= max_link)
        read_debug_link(s);
    }
  }
  for (const section& s : sections_) {
    // Notes are read from sections as well as from segments, because separate debug information has
    // no segments.
    if (s.type == SHT_NOTE && build_id_.empty()) read_notes(s.offset, s.bytes);
  }
  const auto full = std::ranges::find(sections_, std::uint32_t{SHT_SYMTAB}, &section::type);
  const auto exported = std::ranges::find(sections_, std::uint32_t{SHT_DYNSYM}, &section::type);
  has_full_symbols_ = full != sections_.end();
  if (has_full_symbols_) {
    read_functions(*full);
  } else if (exported != sections_.end()) {
    read_functions(*exported);
  }
  if (exported != sections_.end()) read_calls(*exported, texts);
}

void elf_file::read_notes(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > max_notes - note_bytes_) return;
  note_bytes_ += bytes;
  const auto notes = read(offset, bytes);
  for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr header{};
    std::memcpy(&header, notes.data() + at, sizeof header);
    at += sizeof header;
    const std::uint64_t text = at + aligned(header.n_namesz);
    const std::uint64_t end = text + header.n_descsz;
    if (end > notes.size()) return;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(notes.data() + at, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      build_id_ = hexadecimal(std::span(notes).subspan(text, end - text));
      return;
    }
    at = text + aligned(header.n_descsz);
  }
}

void elf_file::read_debug_link(const section& link) {
  const auto bytes = read(link.offset, link.bytes);
  debug_link_ = text_at(bytes, 0, max_link);
  const std::uint64_t at = aligned(debug_link_.size() + 1);
  if (at + sizeof(std::uint32_t) <= bytes.size())
    debug_link_checksum_ = value_at<std::uint32_t>(std::span(bytes).subspan(at), 0);
}

/// Returns for each symbol whether its version is hidden, which means that the symbol is kept for
/// older programs. Returns an empty list if the file has no symbol versions.
std::vector<bool> elf_file::old_versions_of(const section& symbols) const {
  constexpr std::uint16_t hidden = 0x8000;
  const auto index = static_cast<std::size_t>(&symbols - sections_.data());
  for (const section& s : sections_) {
    if (s.type != SHT_GNU_versym || s.link != index) continue;
    const auto bytes = read(s.offset, s.bytes);
    std::vector<bool> are_old(bytes.size() / sizeof(std::uint16_t));
    for (std::size_t i = 0; i < are_old.size(); ++i)
      are_old[i] = (value_at<std::uint16_t>(bytes, i) & hidden) != 0;
    return are_old;
  }
  return {};
}

void elf_file::read_functions(const section& symbols) {
  if (symbols.link >= sections_.size()) return;
  const section& texts = sections_[symbols.link];
  std::vector<std::byte>& names = defined_.names;
  names = read(texts.offset, texts.bytes);
  const auto table = read(symbols.offset, symbols.bytes);
  const std::vector<bool> are_old = old_versions_of(symbols);
  const std::size_t count = table.size() / sizeof(Elf64_Sym);
  for (std::size_t i = 0; i < count; ++i) {
    const auto symbol = value_at<Elf64_Sym>(table, i);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
    // Accept global symbols without a type and a size as functions, because labels in assembly may
    // lack both.
    const bool is_label =
        type == STT_NOTYPE && symbol.st_size == 0 && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
    if (!is_function && !is_label) continue;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) continue;
    if (symbol.st_name == 0 || symbol.st_name >= names.size()) continue;
    // Limit a function to its section, because code without symbols, such as the linker's call
    // stubs, may follow in the next section.
    std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
    if (symbol.st_shndx < sections_.size())
      end = sections_[symbol.st_shndx].address + sections_[symbol.st_shndx].bytes;
    const std::string_view name = text_at(names, symbol.st_name, max_name);
    // A symbol with "@version" in its name is kept for older programs.
    const bool is_old =
        name.find('@') != std::string_view::npos || (i < are_old.size() && are_old[i]);
    const bool is_mangled = name.starts_with("_Z") || name.starts_with("_R");
    defined_.functions.push_back(
        {symbol.st_value, symbol.st_size, end, symbol.st_name,
         is_function && !is_old && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL,
         name.starts_with('_') && !is_mangled});
  }
  // A lookup takes the last of several symbols at one address. So sort these symbols by preference:
  // symbols with a size, symbols that are preferred among aliases, and symbols without a reserved
  // name come last.
  std::ranges::sort(defined_.functions, {}, [](const function& f) {
    return std::tuple(f.address, f.bytes != 0, f.is_preferred, !f.is_reserved, f.name);
  });
}

/// Reads the linker's call stubs (PLT). Each stub jumps to the address in a slot, which the loader
/// fills in. The slot's relocation names the function, so a stub is found by the slot to which it
/// refers.
void elf_file::read_calls([[maybe_unused]] const section& symbols,
                          [[maybe_unused]] std::span<const std::byte> section_names) {
#if defined(__x86_64__)
  if (symbols.link >= sections_.size()) return;
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(sections_, [&](const section& s) {
      return s.type != SHT_NOBITS && text_at(section_names, s.name, 32) == name;
    });
  };
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places; // slot address, symbol
  for (const char* name : {".rela.plt", ".rela.dyn"}) {
    const auto found = find(name);
    if (found == sections_.end()) continue;
    const auto table = read(found->offset, found->bytes);
    for (std::size_t i = 0; i < table.size() / sizeof(Elf64_Rela); ++i) {
      const auto relocation = value_at<Elf64_Rela>(table, i);
      const auto symbol = ELF64_R_SYM(relocation.r_info);
      if (symbol != 0) places.emplace_back(relocation.r_offset, symbol);
    }
  }
  std::ranges::sort(places);
  const auto table = read(symbols.offset, symbols.bytes);
  const auto texts = read(sections_[symbols.link].offset, sections_[symbols.link].bytes);
  constexpr std::string_view jump = "\xff\x25"; // jmp *distance(%rip)
  constexpr std::size_t jump_bytes = 6;
  for (const char* section_name : {".plt", ".plt.sec", ".plt.got"}) {
    const auto found = find(section_name);
    if (found == sections_.end()) continue;
    const std::uint64_t entry = found->entry_bytes == 8 ? 8 : 16;
    const auto code = read(found->offset, found->bytes);
    const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
    for (auto at = bytes.find(jump); at != std::string_view::npos && at + jump_bytes <= code.size();
         at = bytes.find(jump, at + jump_bytes)) {
      std::int32_t distance = 0;
      std::memcpy(&distance, code.data() + at + jump.size(), sizeof distance);
      const std::uint64_t place =
          found->address + at + jump_bytes + static_cast<std::uint64_t>(std::int64_t{distance});
      const auto known = std::ranges::lower_bound(places, std::pair(place, std::uint64_t{0}));
      if (known == places.end() || known->first != place) continue;
      if (known->second >= table.size() / sizeof(Elf64_Sym)) continue;
      const auto symbol = value_at<Elf64_Sym>(table, static_cast<std::size_t>(known->second));
      const std::string name(text_at(texts, symbol.st_name, longest_call));
      if (name.empty()) continue;
      called_.functions.push_back({found->address + at / entry * entry, entry,
                                   found->address + found->bytes, called_.names.size()});
      const std::string text = name + "@plt";
      const auto* const first = reinterpret_cast<const std::byte*>(text.c_str());
      called_.names.insert(called_.names.end(), first, first + text.size() + 1);
    }
  }
  std::ranges::sort(called_.functions, {}, &function::address);
#endif
}

std::optional<std::uint64_t> elf_file::address_of(std::uint64_t offset) const {
  for (const segment& s : segments_) {
    if (offset >= s.offset && offset - s.offset < s.bytes) return offset - s.offset + s.address;
  }
  return {};
}

std::string_view elf_file::function_names::at(std::uint64_t address) const {
  auto at = std::ranges::upper_bound(functions, address, {}, &function::address);
  for (int looked = 0; at != functions.begin() && looked < max_overlapping; ++looked) {
    --at;
    if (at->bytes == 0 ? looked == 0 && address < at->end : address - at->address < at->bytes)
      return text_at(names, at->name, max_name);
  }
  return {};
}

std::string_view elf_file::function_at(std::uint64_t address) const {
  const std::string_view name = defined_.at(address);
  return name.empty() ? called_.at(address) : name;
}

void elf_file::take_functions_of(elf_file& other) {
  defined_ = std::move(other.defined_);
  has_full_symbols_ = other.has_full_symbols_;
}

} // namespace farcall::tool
