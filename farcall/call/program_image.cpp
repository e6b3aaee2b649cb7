// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/call/program_image.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace farcall {
namespace {

/// Character between the symbol of a static function and the name of the function's file.
constexpr char source_mark = '@';

constexpr const char* own_file = "/proc/self/exe";

std::string build_id_in(const dl_phdr_info& image, const ElfW(Phdr) & segment) {
  const auto* at = reinterpret_cast<const unsigned char*>(image.dlpi_addr + segment.p_vaddr);
  const auto* const end = at + segment.p_memsz;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const auto* const name = at + sizeof note;
    const auto* const content = name + (note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      return hexadecimal(std::as_bytes(std::span(content, note.n_descsz)));
    }
    at = content + (note.n_descsz + 3) / 4 * 4;
  }
  return "";
}

std::string file_identity() {
  // Use fstat on the opened file, because under an emulator stat would describe the emulator.
  const unique_fd file(::open(own_file, O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return "unknown";
  return "file " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":" +
         std::to_string(status.st_size) + ":" + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

/// Checked access to the bytes of an ELF file; empty if the file cannot be read. The file is
/// mapped, because it may be large and little of it is read. A mapping is safe because the file of
/// a running program cannot shrink.
class elf_file {
 public:
  explicit elf_file(const char* path) {
    const unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (mapped != MAP_FAILED) bytes_ = {static_cast<const char*>(mapped), size};
  }
  elf_file(const elf_file&) = delete;
  elf_file& operator=(const elf_file&) = delete;
  ~elf_file() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  template <class T>
  [[nodiscard]] bool read(std::uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return true;
  }
  [[nodiscard]] std::string text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return "";
    const char* start = bytes_.data() + offset;
    return {start, ::strnlen(start, bytes_.size() - offset)};
  }

 private:
  std::span<const char> bytes_;
};

} // namespace

const program_image& program_image::instance() {
  // The object is never destroyed, because destructors of static objects may make calls.
  static const auto* const image = new program_image;
  return *image;
}

program_image::program_image() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*size*/, void* self) {
        auto& image = *static_cast<program_image*>(self);
        image.base_ = info->dlpi_addr;
        for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
            image.code_.push_back({segment.p_vaddr, segment.p_memsz});
          }
          if (segment.p_type == PT_NOTE && image.build_.empty()) {
            image.build_ = build_id_in(*info, segment);
          }
        }
        return 1; // stop after the first image, which is the program
      },
      this);
  if (!code_.empty() && code_.front().begin < near) {
    const range& first = code_.front();
    near_code_ = {first.begin, std::min(first.bytes, near - first.begin)};
  }
  if (build_.empty()) build_ = file_identity();
}

struct program_image::symbols {
  std::unordered_map<std::uint64_t, std::string> names; ///< by offset
  /// Offsets of symbols by name, without names that exist twice.
  std::unordered_map<std::string, std::uint64_t> offsets;
};

const program_image::symbols& program_image::table() const {
  // The object exists once, because a process has one program. It is never destroyed, because a job
  // may end after static objects.
  static const auto* const all = new symbols(read_symbols());
  return *all;
}

program_image::symbols program_image::read_symbols() const {
  symbols all;
  const elf_file file(own_file);
  ElfW(Ehdr) header;
  if (!file.read(0, header)) return all;
  const auto section = [&](std::uint64_t i, ElfW(Shdr) & s) {
    return file.read(header.e_shoff + i * sizeof s, s);
  };
  std::unordered_map<std::string, std::uint64_t> twice;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) table{};
    ElfW(Shdr) strings{};
    if (!section(i, table) || (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) ||
        !section(table.sh_link, strings)) {
      continue;
    }
    std::string source;
    for (std::uint64_t at = 0; at + sizeof(ElfW(Sym)) <= table.sh_size; at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      if (!file.read(table.sh_offset + at, symbol)) break;
      // Files of 32 and of 64 bits use the same bits for type and binding of a symbol. The symbol
      // of a source file precedes the file's local symbols.
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE) {
        source = file.text(strings.sh_offset + symbol.st_name);
        source.erase(0, source.rfind('/') + 1);
      }
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      std::string name = file.text(strings.sh_offset + symbol.st_name);
      // Identify a static function by its name and its file.
      if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) name += source_mark + source;
      all.names.emplace(symbol.st_value, name);
      const auto [known, is_new] = all.offsets.emplace(name, symbol.st_value);
      if (!is_new && known->second != symbol.st_value) twice.emplace(name, 0);
    }
  }
  for (const auto& [name, unused] : twice)
    all.offsets.erase(name);
  return all;
}

std::string program_image::name_of(any_function f) const {
  if (const auto offset = offset_of(f)) {
    const auto at = table().names.find(*offset);
    if (at == table().names.end() || !table().offsets.contains(at->second)) return "";
    return at->second;
  }
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(f), &info) == 0 || info.dli_sname == nullptr ||
      info.dli_saddr != reinterpret_cast<void*>(f)) {
    return "";
  }
  return info.dli_sname;
}

std::optional<std::string> program_image::defining_file_of(any_function f) const {
  if (const auto offset = offset_of(f)) {
    const auto at = table().names.find(*offset);
    if (at == table().names.end()) return std::nullopt;
    const auto mark = at->second.find(source_mark);
    return mark == std::string::npos ? "" : at->second.substr(mark + 1);
  }
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(f), &info) == 0 || info.dli_fname == nullptr) {
    return std::nullopt;
  }
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

any_function program_image::by_name(const std::string& name) const {
  const auto at = table().offsets.find(name);
  if (at != table().offsets.end()) return at_offset(at->second);
  void* const found = ::dlsym(RTLD_DEFAULT, name.c_str());
  if (found == nullptr) return nullptr;
  // Check that the symbol is a function, because peers may name any symbol.
  Dl_info info{};
  void* symbol = nullptr;
  if (::dladdr1(found, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return nullptr;
  const int kind = ELF64_ST_TYPE(static_cast<const ElfW(Sym)*>(symbol)->st_info);
  if (kind != STT_FUNC && kind != STT_GNU_IFUNC) return nullptr;
  return reinterpret_cast<any_function>(found);
}

} // namespace farcall
