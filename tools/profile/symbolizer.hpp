// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "debug_info.hpp"
#include "modules.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

/// A place in a file, with the functions that contain this place.
struct symbol {
  std::uint64_t address = 0; ///< virtual address as in the file's headers
  /// Frames of the functions at the place, innermost first. There is at least one frame, and each
  /// function has a name.
  std::vector<source_frame> frames;
};

/// Looks up the functions at many places in one file. `offsets` are the places' file offsets, which
/// must be sorted and unique. Names are read from the file's symbol table, or from its separate
/// debug file. Lines and inlined functions are read from the debug information. A function without
/// a name gets its address in hexadecimal as its name.
[[nodiscard]] std::vector<symbol> symbolize(const module_file& module,
                                            std::span<const std::uint64_t> offsets);

/// Returns a text such as "0x7f00", which is used as the name of a function that has none.
[[nodiscard]] std::string address_text(std::uint64_t address);

} // namespace farcall::tool
