#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace farcall {

/// A place in the code of this process.
struct code_place {
  std::uintptr_t address = 0; ///< in this process
  const char* file = nullptr; ///< null if it is in none; empty for the program's
  std::uintptr_t in_file = 0; ///< the address that the file's symbols and lines are given by
  std::string_view symbol{};  ///< empty: not known
};

/// The file of `address`, and the address there. For signal handlers, too.
[[nodiscard]] code_place find_code(std::uintptr_t address) noexcept;

/// Looks up the symbols of all places, also of functions that are not exported. For a process that
/// is about to end, also in a signal handler: neither allocates, nor unmaps the files that it
/// reads.
void find_symbols(std::span<code_place> places) noexcept;

} // namespace farcall
