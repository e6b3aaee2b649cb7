#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::veo {

/// A library, or the program, as it lies in memory.
struct loaded_module {
  std::string file; // not empty; the name by which it was loaded, which may be another file's now
  std::string identity;        // device and inode of the mapped file; empty if /proc does not say
  std::uint64_t load_bias = 0; // address in memory minus address in the file
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  friend bool operator==(const loaded_module&, const loaded_module&) = default;
};

std::optional<loaded_module> module_of(const void* address);
std::vector<loaded_module> loaded_modules();

/// Opens the file that is mapped at an address of a process (0: this one), though another file may
/// have the name now. `name`: where to look first. Negative if the file has been removed, and
/// neither process has it open, and the kernel does not give it to this user. The caller closes
/// the descriptor.
int open_mapped_file(pid_t process, std::uint64_t address, const std::string& name);

} // namespace farcall::veo
