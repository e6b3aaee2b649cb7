#pragma once

#include "debug_info.hpp"
#include "modules.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

/// What is known of one place in a file.
struct symbol {
  std::uint64_t address = 0;        ///< in the file's own terms
  std::vector<source_frame> frames; ///< innermost first; at least one, whose function has a name
};

/// Looks up many places of one file, given by their offsets, sorted and each once: names from its
/// symbols, or those of its separate debug file; lines and inlined functions from debug
/// information. A function without a name gets its address, in hexadecimal.
[[nodiscard]] std::vector<symbol> symbolize(const module_file& module,
                                            std::span<const std::uint64_t> offsets);

/// "0x7f00": what stands for a function without a name.
[[nodiscard]] std::string address_text(std::uint64_t address);

} // namespace farcall::tool
