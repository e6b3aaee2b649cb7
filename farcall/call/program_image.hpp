#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcall {

/// Any function; cast back before it is called.
using any_function = void (*)();

/// The running program as a file: which build it is, and where its functions are. For sending plain
/// function pointers: as an offset between identical builds, by symbol name otherwise.
class program_image {
 public:
  [[nodiscard]] static const program_image& instance();

  /// Identifies the build: the linker's build id, or what the file system says about the file.
  [[nodiscard]] const std::string& build() const noexcept { return build_; }

  /// Offset of a function of the program itself; nothing for one in a shared library.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(any_function f) const noexcept {
    const std::uint64_t offset = distance_to(f);
    if (!is_code(offset)) return std::nullopt;
    return offset;
  }

  /// The same in two steps, for a path where each instruction counts: what would be the offset, and
  /// whether it is that of a function, and less than `near`. A function may be found far that is
  /// not.
  [[nodiscard]] std::uint64_t distance_to(any_function f) const noexcept {
    return reinterpret_cast<std::uintptr_t>(f) - base_;
  }
  [[nodiscard]] bool is_near(std::uint64_t offset) const noexcept {
    return offset - near_code_.begin < near_code_.bytes;
  }
  static constexpr std::uint64_t near = std::uint64_t{1} << 31;

  /// The address at `offset`, or null when no code of the program lies there.
  [[nodiscard]] any_function at_offset(std::uint64_t offset) const noexcept {
    return is_code(offset) ? reinterpret_cast<any_function>(base_ + offset) : nullptr;
  }

  /// Mangled symbol name of a function, of a static one with "@file.cpp", and of one in a library
  /// if it is exported. Empty when it has none, or shares it with another function of the program.
  [[nodiscard]] std::string name_of(any_function f) const;

  /// Where a function is defined whose name other files, or libraries, may use too: the source file
  /// if it is static, the library if it is in one, empty when there can be no other. Nothing when
  /// the program was stripped of its symbols.
  [[nodiscard]] std::optional<std::string> defining_file_of(any_function f) const;

  /// The function with that symbol name; null when there is none, or more than one.
  [[nodiscard]] any_function by_name(const std::string& name) const;

 private:
  program_image();

  struct range {
    std::uint64_t begin;
    std::uint64_t bytes;
  };
  struct symbols;

  [[nodiscard]] bool is_code(std::uint64_t offset) const noexcept {
    for (const range& r : code_) {
      if (offset - r.begin < r.bytes) return true;
    }
    return false;
  }

  /// Read from the file by the first that asks.
  [[nodiscard]] const symbols& table() const;
  [[nodiscard]] symbols read_symbols() const;

  std::string build_;
  std::uint64_t base_ = 0;
  range near_code_{0, 0};   ///< the first of them: most programs have one
  std::vector<range> code_; ///< executable parts, as offsets
};

} // namespace farcall
