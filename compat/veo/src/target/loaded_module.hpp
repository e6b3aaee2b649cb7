// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::veo {

/// A library that is loaded into a process, or the program itself.
struct loaded_module {
  // Name under which the file was loaded; never empty. Another file may have this name by now.
  std::string file;
  std::string identity; // device and inode of the mapped file; empty if /proc does not list them
  std::uint64_t load_bias = 0; // address in memory minus address in the file
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  friend bool operator==(const loaded_module&, const loaded_module&) = default;
};

std::optional<loaded_module> module_of(const void* address);
std::vector<loaded_module> loaded_modules();

/// Opens the file that is mapped at an address of the process `process`, or of this process if
/// `process` is 0. Tries `name` first, and checks that this file is the mapped one, because another
/// file may have that name by now. The check is not possible if /proc does not list the mapping.
/// Returns a descriptor, which the caller closes. Returns a negative number if the file has been
/// removed, the process does not have it open, and the operating system does not allow this user to
/// open the mapping.
int open_mapped_file(pid_t process, std::uint64_t address, const std::string& name);

} // namespace farcall::veo
