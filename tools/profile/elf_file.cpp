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

/// More than any real file has, in bytes. Files with holes may be of any size.
constexpr std::uint64_t longest_table = std::uint64_t{1} << 30;
/// Of notes, all together: a damaged file may name the same ones again and again.
constexpr std::uint64_t longest_notes = 1 << 20;
constexpr std::uint64_t longest_link = 4096;
constexpr std::size_t most_sections = 1 << 20;
/// Functions may overlap, as parts of one do that the compiler has moved out: how many are looked
/// at for one that holds an address.
constexpr int most_overlapping = 8;

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// The text at `at`, or its beginning where it is longer than `longest`.
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
    // Large numbers stand in the first section.
    if (const auto first = read(header.e_shoff, sizeof(Elf64_Shdr)); !first.empty()) {
      const auto extended = value_at<Elf64_Shdr>(first, 0);
      if (count == 0) count = static_cast<std::size_t>(extended.sh_size);
      if (names == SHN_XINDEX) names = extended.sh_link;
    }
    read_sections(header.e_shoff, count, names);
  }
}

std::vector<std::byte> elf_file::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > file_bytes_ || bytes > file_bytes_ - offset || bytes > longest_table) return {};
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
  if (count > most_sections) return;
  const auto bytes = read(offset, count * sizeof(Elf64_Shdr));
  if (bytes.empty()) return;
  for (std::size_t i = 0; i < count; ++i) {
    const auto header = value_at<Elf64_Shdr>(bytes, i);
    sections_.push_back({header.sh_name, header.sh_type, header.sh_link, header.sh_addr,
                         header.sh_offset, header.sh_size});
  }
  if (names < count) {
    const auto texts = read(sections_[names].offset, sections_[names].bytes);
    for (const section& s : sections_) {
      // Enough to tell those that are looked for from all others.
      const std::string_view name = text_at(texts, s.name, 32);
      if (name == ".debug_info" && s.type != SHT_NOBITS) has_debug_information_ = true;
      if (name == ".gnu_debuglink" && debug_link_.empty() && s.bytes <= longest_link)
        read_debug_link(s);
    }
  }
  for (const section& s : sections_) {
    // Debug information that is a file of its own has no segments.
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
}

void elf_file::read_notes(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > longest_notes - note_bytes_) return;
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
  debug_link_ = text_at(bytes, 0, longest_link);
  const std::uint64_t at = aligned(debug_link_.size() + 1);
  if (at + sizeof(std::uint32_t) <= bytes.size())
    debug_link_checksum_ = value_at<std::uint32_t>(std::span(bytes).subspan(at), 0);
}

void elf_file::read_functions(const section& symbols) {
  if (symbols.link >= sections_.size()) return;
  const section& texts = sections_[symbols.link];
  names_ = read(texts.offset, texts.bytes);
  const auto table = read(symbols.offset, symbols.bytes);
  const std::size_t count = table.size() / sizeof(Elf64_Sym);
  for (std::size_t i = 0; i < count; ++i) {
    const auto symbol = value_at<Elf64_Sym>(table, i);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
    // Assembly need not say what its labels are.
    const bool is_label =
        type == STT_NOTYPE && symbol.st_size == 0 && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
    if (!is_function && !is_label) continue;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) continue;
    if (symbol.st_name == 0 || symbol.st_name >= names_.size()) continue;
    // A function ends with its section: the linker's table of calls may follow.
    std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
    if (symbol.st_shndx < sections_.size())
      end = sections_[symbol.st_shndx].address + sections_[symbol.st_shndx].bytes;
    // Symbols with a version in their name are kept for older programs.
    const bool has_version =
        text_at(names_, symbol.st_name, longest_name).find('@') != std::string_view::npos;
    functions_.push_back(
        {symbol.st_value, symbol.st_size, end, symbol.st_name,
         is_function && !has_version && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL});
  }
  // Of several with one address the last is taken: one with a size, and not an alias.
  std::ranges::sort(functions_, {}, [](const function& f) {
    return std::tuple(f.address, f.bytes != 0, f.is_preferred, f.name);
  });
}

std::optional<std::uint64_t> elf_file::address_of(std::uint64_t offset) const {
  for (const segment& s : segments_) {
    if (offset >= s.offset && offset - s.offset < s.bytes) return offset - s.offset + s.address;
  }
  return {};
}

std::string_view elf_file::function_at(std::uint64_t address) const {
  auto at = std::ranges::upper_bound(functions_, address, {}, &function::address);
  for (int looked = 0; at != functions_.begin() && looked < most_overlapping; ++looked) {
    --at;
    if (at->bytes == 0 ? looked == 0 && address < at->end : address - at->address < at->bytes)
      return text_at(names_, at->name, longest_name);
  }
  return {};
}

void elf_file::take_functions_of(elf_file& other) {
  functions_ = std::move(other.functions_);
  names_ = std::move(other.names_);
  has_full_symbols_ = other.has_full_symbols_;
}

} // namespace farcall::tool
