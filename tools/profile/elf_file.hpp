#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// What symbolising needs of a program or library: where its file is in memory, its functions, and
/// how its debug information is found. Whatever the file holds, nothing beyond its bytes is read;
/// what makes no sense counts as missing. Only files of this machine's kind.
class elf_file {
 public:
  static constexpr std::size_t longest_name = std::size_t{1} << 16;

  struct function {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;   ///< if 0, the next function or the section's end bounds it
    std::uint64_t end = 0;     ///< of the section
    std::uint64_t name = 0;    ///< in the names
    bool is_preferred = false; ///< among aliases
    bool is_reserved = false;  ///< its name begins with an underscore
  };

  /// Reads by pread, so that a file which shrinks meanwhile does no harm. Does not own `file`.
  explicit elf_file(int file);

  [[nodiscard]] bool is_valid() const { return !segments_.empty() || !sections_.empty(); }
  /// The address, in the file's own terms, of a place in the file that is loaded into memory.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  /// The mangled name of the function that holds the address, or the beginning of one that is
  /// longer than longest_name; empty when there is none. "name@plt" for what calls a function of
  /// another library (x86-64). Valid as long as this, and until
  /// take_functions_of().
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;
  [[nodiscard]] bool has_full_symbols() const { return has_full_symbols_; }
  /// Uses the functions of another file, as of separate debug information.
  void take_functions_of(elf_file& other);
  /// In hexadecimal; empty when there is none.
  [[nodiscard]] const std::string& build_id() const { return build_id_; }
  /// The file name that a ".gnu_debuglink" section has; mostly empty.
  [[nodiscard]] const std::string& debug_link() const { return debug_link_; }
  /// The checksum (CRC-32) of the file that debug_link() names; nothing if the section has none.
  [[nodiscard]] std::optional<std::uint32_t> debug_link_checksum() const {
    return debug_link_checksum_;
  }
  [[nodiscard]] bool has_debug_information() const { return has_debug_information_; }

 private:
  struct segment {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;
  };
  struct section {
    std::uint32_t name = 0;
    std::uint32_t type = 0;
    std::uint32_t link = 0;
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t entry_bytes = 0;
  };
  /// Functions by address, and their names, each of which ends with a zero.
  struct function_names {
    std::vector<function> functions;
    std::vector<std::byte> names;

    [[nodiscard]] std::string_view at(std::uint64_t address) const;
  };

  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t bytes) const;
  void read_segments(std::uint64_t offset, std::size_t count);
  void read_sections(std::uint64_t offset, std::size_t count, std::size_t names);
  void read_notes(std::uint64_t offset, std::uint64_t bytes);
  void read_functions(const section& symbols);
  [[nodiscard]] std::vector<bool> old_versions_of(const section& symbols) const;
  void read_calls(const section& symbols, std::span<const std::byte> section_names);
  void read_debug_link(const section& link);

  int file_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t note_bytes_ = 0; ///< that have been read
  std::vector<segment> segments_;
  std::vector<section> sections_;
  function_names defined_;
  function_names called_; ///< in the linker's tables of calls
  std::string build_id_;
  std::string debug_link_;
  std::optional<std::uint32_t> debug_link_checksum_;
  bool has_full_symbols_ = false;
  bool has_debug_information_ = false;
};

} // namespace farcall::tool
