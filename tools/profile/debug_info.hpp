// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

/// A function at an address. There are several at one address if the compiler has inlined functions
/// into each other.
struct source_frame {
  std::string function; ///< demangled; empty if unknown
  std::string file;
  std::uint32_t line = 0;
};

/// Reads a file's debug information (DWARF) for sorted addresses. For each address that it
/// describes, calls `take` with the address's index and its frames, innermost first. The order of
/// these calls is arbitrary. Callers should pass many addresses at once, because each unit is read
/// as a whole. Without libdw, or if the file is damaged, `take` is not called.
void read_source_frames(int file, std::span<const std::uint64_t> addresses,
                        const std::function<void(std::size_t, std::vector<source_frame>)>& take);

/// True if this program was built with libdw.
[[nodiscard]] bool reads_debug_information();

} // namespace farcall::tool
