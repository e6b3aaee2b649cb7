// SPDX-License-Identifier: Apache-2.0
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
  const char* file = nullptr; ///< null if the address is in no file; empty for the program's
                              ///< executable
  /// Address relative to the file, like the addresses of the file's symbols.
  std::uintptr_t in_file = 0;
  std::string_view symbol{}; ///< empty if unknown
};

/// Returns the file that contains `address`, and the address in that file. Async-signal-safe.
[[nodiscard]] code_place find_code(std::uintptr_t address) noexcept;

/// Sets the symbol of each place, also for functions that are not exported. May be called in a
/// signal handler, because it does not allocate. The process must be about to end, because the
/// files that the function reads stay mapped.
void find_symbols(std::span<code_place> places) noexcept;

} // namespace farcall
