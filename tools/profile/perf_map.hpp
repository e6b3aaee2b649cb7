#pragma once

#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Functions that a process has compiled while it runs, as its compiler writes them into
/// /tmp/perf-PID.map: lines of address, size and name.
class perf_map {
 public:
  /// Reads by pread, up to 64 MiB. Lines in another form are left out.
  explicit perf_map(int file);
  perf_map(const perf_map&) = delete;
  perf_map& operator=(const perf_map&) = delete;

  /// The name of the function that holds the address; empty if there is none.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;

 private:
  struct function {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string_view name; ///< in text_
  };

  void read_line(std::string_view line);

  std::string text_; ///< of the file
  /// Sorted by address; of functions at one address the last that was written counts.
  std::vector<function> functions_;
};

/// The path of the process's map, whether or not there is one.
[[nodiscard]] std::string perf_map_path(pid_t process);
[[nodiscard]] bool is_perf_map(std::string_view path);

/// Opens the map, if the process's user or root has written it: /tmp is for all users.
[[nodiscard]] unique_fd open_perf_map(pid_t process);

} // namespace farcall::tool
