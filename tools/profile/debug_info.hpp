#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

/// One function at an address, of those that are inlined into each other there.
struct source_frame {
  std::string function; ///< demangled; empty where that is not known
  std::string file;
  std::uint32_t line = 0;
};

/// Reads the debug information of a file (DWARF) for addresses in it, which are sorted. `take` is
/// given the index of an address and its frames, innermost first, in any order; not the addresses
/// that nothing is said about. Whole units are read once each, so many addresses are best looked up
/// together. Without libdw, and for a file that is damaged, nothing is known.
void read_source_frames(int file, std::span<const std::uint64_t> addresses,
                        const std::function<void(std::size_t, std::vector<source_frame>)>& take);

/// Whether this program was built with libdw.
[[nodiscard]] bool reads_debug_information();

} // namespace farcall::tool
