#pragma once

#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace farcall::tool {

/// Functions that a process has compiled while it runs, as its compiler writes them into
/// /tmp/perf-PID.map: lines of address, size and name.
class perf_map {
 public:
  /// Reads by pread, up to 256 MiB. Lines in another form are left out.
  explicit perf_map(int file);

  /// The name of the function that holds the address; empty if there is none.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;

 private:
  struct function {
    std::uint64_t bytes = 0;
    std::string name;
  };

  void read_line(std::string_view line);

  std::map<std::uint64_t, function> functions_; ///< by address; the last that was written counts
};

/// The path of the process's map, whether or not there is one.
[[nodiscard]] std::string perf_map_path(pid_t process);
[[nodiscard]] bool is_perf_map(std::string_view path);

/// Opens the map, if the process's user or root has written it: /tmp is for all users.
[[nodiscard]] unique_fd open_perf_map(pid_t process);

} // namespace farcall::tool
