// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcall {

/// Pointer to any function. Cast it back to the original type before the call.
using any_function = void (*)();

/// The running program as a file, with its build id and with the offsets and names of its
/// functions. Used to send plain function pointers: between identical builds as an offset,
/// otherwise by symbol name.
class program_image {
 public:
  [[nodiscard]] static const program_image& instance();

  /// Returns text that identifies the build: the linker's build id, or else data from the file
  /// system about the file.
  [[nodiscard]] const std::string& build() const noexcept { return build_; }

  /// Returns the offset of a function of the program itself. Returns an empty optional for a
  /// function in a shared library.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(any_function f) const noexcept {
    const std::uint64_t offset = distance_to(f);
    if (!is_code(offset)) return std::nullopt;
    return offset;
  }

  /// The two steps of offset_of(), for code that must be fast. distance_to() returns the offset of
  /// any address. is_near() returns true only if the offset belongs to a function and is below
  /// `near`. It may also return false for a function whose offset is below `near`.
  [[nodiscard]] std::uint64_t distance_to(any_function f) const noexcept {
    return reinterpret_cast<std::uintptr_t>(f) - base_;
  }
  [[nodiscard]] bool is_near(std::uint64_t offset) const noexcept {
    return offset - near_code_.begin < near_code_.bytes;
  }
  static constexpr std::uint64_t near = std::uint64_t{1} << 31;

  /// Returns the function at `offset`, or null if the program has no code at this offset.
  [[nodiscard]] any_function at_offset(std::uint64_t offset) const noexcept {
    return is_code(offset) ? reinterpret_cast<any_function>(base_ + offset) : nullptr;
  }

  /// Returns the mangled symbol name of a function. The name of a static function ends with
  /// "@file.cpp". A library's function has a name if it is exported. Returns an empty name if the
  /// function has none, or if another function has the same name.
  [[nodiscard]] std::string name_of(any_function f) const;

  /// Returns the place that distinguishes a function from other functions of the same name. The
  /// place is the source file of a static function, or the library of a library's function; it is
  /// empty if the name is unique. Returns nullopt if the program was stripped of its symbols.
  [[nodiscard]] std::optional<std::string> defining_file_of(any_function f) const;

  /// Returns the function that has this symbol name. Returns null if there is none, or more than
  /// one.
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

  /// Returns the symbols of the program. The first call reads them from the program's file.
  [[nodiscard]] const symbols& table() const;
  [[nodiscard]] symbols read_symbols() const;

  std::string build_;
  std::uint64_t base_ = 0;
  /// Part of code_[0] below `near`. Most programs have all their code there.
  range near_code_{0, 0};
  std::vector<range> code_; ///< executable segments, as offsets
};

} // namespace farcall
