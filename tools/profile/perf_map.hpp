// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Functions that a process has compiled at run time. A JIT compiler writes their addresses, sizes
/// and names into the file /tmp/perf-PID.map, one function per line.
class perf_map {
 public:
  /// Reads the file with pread, at most 64 MiB. Skips lines in another form.
  explicit perf_map(int file);
  perf_map(const perf_map&) = delete;
  perf_map& operator=(const perf_map&) = delete;

  /// Returns the name of the function that holds the address. Returns an empty text if there is
  /// none.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;

 private:
  struct function {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string_view name; ///< view into text_
  };

  void read_line(std::string_view line);

  std::string text_; ///< content of the file
  /// Functions sorted by address. If several functions have the same address, the function that was
  /// written last counts.
  std::vector<function> functions_;
};

/// Returns the path of a process's perf_map. The file need not exist.
[[nodiscard]] std::string perf_map_path(pid_t process);
[[nodiscard]] bool is_perf_map(std::string_view path);

/// Opens the perf_map of a process. Refuses a file that belongs neither to the process's user nor
/// to root, because any user can write files to /tmp.
[[nodiscard]] unique_fd open_perf_map(pid_t process);

} // namespace farcall::tool
