// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// The parts of a program or library that a symbolizer needs: the addresses of its segments, its
/// functions, and references to its debug information. Damaged files are safe: reads stay within
/// the file, and invalid parts count as missing. Reads 64-bit files for this machine's architecture
/// only.
class elf_file {
 public:
  static constexpr std::size_t max_name = std::size_t{1} << 16;

  struct function {
    std::uint64_t address = 0;
    /// Size of the function. If it is 0, the function ends at the next function, or at the end of
    /// its section.
    std::uint64_t bytes = 0;
    std::uint64_t end = 0;     ///< end of the section
    std::uint64_t name = 0;    ///< offset in function_names::names
    bool is_preferred = false; ///< among aliases
    bool is_reserved = false;  ///< true if the name begins with an underscore
  };

  /// Reads with pread, because a mapped file that shrinks would cause SIGBUS. Does not own `file`.
  explicit elf_file(int file);

  [[nodiscard]] bool is_valid() const { return !segments_.empty() || !sections_.empty(); }
  /// Returns the virtual address at which the byte at this file offset is loaded, by the addresses
  /// in the file's own headers. Returns nothing if the byte is in no loaded segment.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  /// Returns the mangled name of the function that holds the address, truncated to max_name bytes.
  /// Returns an empty text if no function holds it. The name of a stub that calls another library's
  /// function is "name@plt" (x86-64). The text is valid until take_functions_of() is called or this
  /// object is destroyed.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;
  [[nodiscard]] bool has_full_symbols() const { return has_full_symbols_; }
  /// Replaces the functions by the functions of another file, for instance of separate debug
  /// information.
  void take_functions_of(elf_file& other);
  /// Returns the build id in hexadecimal. Returns an empty text if the file has none.
  [[nodiscard]] const std::string& build_id() const { return build_id_; }
  /// Returns the name of the separate debug file, which the section ".gnu_debuglink" has. Most
  /// files have no such section, so the text is empty.
  [[nodiscard]] const std::string& debug_link() const { return debug_link_; }
  /// Returns the checksum (CRC-32) that the separate debug file (debug_link()) must have. Returns
  /// nothing if the section has no checksum.
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
  /// Functions sorted by address, and their zero-terminated names.
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
  std::uint64_t note_bytes_ = 0; ///< bytes of notes that were read so far, in all sections
  std::vector<segment> segments_;
  std::vector<section> sections_;
  function_names defined_;
  function_names called_; ///< the linker's call stubs (PLT), with the functions that they call
  std::string build_id_;
  std::string debug_link_;
  std::optional<std::uint32_t> debug_link_checksum_;
  bool has_full_symbols_ = false;
  bool has_debug_information_ = false;
};

} // namespace farcall::tool
