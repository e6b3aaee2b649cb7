#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace farcall::veo {

/// A library, or the program, as it lies in memory.
struct loaded_module {
  std::string file;        // not empty; where it was loaded from
  std::uint64_t load_bias; // address in memory minus address in the file
  std::uint64_t begin;
  std::uint64_t end;

  bool contains(std::uint64_t address) const noexcept { return begin <= address && address < end; }
};

std::optional<loaded_module> module_of(const void* address);

} // namespace farcall::veo
