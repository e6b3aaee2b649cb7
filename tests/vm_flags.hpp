// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace farcall::test {

/// Returns the VmFlags line (proc(5)) of this process's mapping that begins at `start`, or an empty
/// text if there is none.
inline std::string vm_flags(const void* start) {
  std::ostringstream address;
  address << std::hex << reinterpret_cast<std::uintptr_t>(start) << '-';
  std::ifstream mappings("/proc/self/smaps");
  bool is_found = false;
  for (std::string line; std::getline(mappings, line);) {
    if (line.starts_with(address.str())) is_found = true;
    if (is_found && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

} // namespace farcall::test
