// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/counter_reader.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A process of this machine that takes part in a job, and therefore has performance counters.
struct counted_process {
  pid_t process = 0; ///< process id as seen in the PID namespace of the calling process
  ino_t file = 0;    ///< inode of the counters' file, which distinguishes the jobs of a process
  uid_t owner = 0;   ///< owner of the counters' file
  ino_t numbers = 0; ///< inode of the PID namespace to which the counted process belongs
  std::string program;
  std::shared_ptr<const counter_reader> counters;
};

/// Returns the counters that a process has in one of its open files. `path` is the file's path
/// below /proc. Returns nothing if the file is of another kind, or if the process is a forked child
/// that still holds its parent's counters. Never blocks, whatever the file is. Throws error if the
/// counters are damaged or of another farcall version.
[[nodiscard]] std::optional<counted_process> counters_in(pid_t process, const std::string& path);

/// Counters that could not be read, because they are damaged or of another farcall version.
struct unreadable_counters {
  std::size_t number = 0; ///< number of unreadable counters
  std::string why;        ///< reason why the first of these counters could not be read, as a text
                          ///< for users

  void add(const std::exception& e);
};

/// Adds the counters of a process to `to`. The process has one set of counters for each of its
/// jobs. Sets that cannot be read are added to `others`. Never blocks on the process.
void add_counters_of(pid_t process, std::vector<counted_process>& to, unreadable_counters& others);

/// Returns all processes of this machine whose counters this process may read, which are mostly
/// processes of the same user. Leaves out processes that end during the call. Counters that cannot
/// be read are left out too, and added to `others`. Never blocks on these processes. Throws error
/// if there is no /proc.
[[nodiscard]] std::vector<counted_process> find_counted_processes(unreadable_counters& others);

/// CPU time and memory that a process uses.
struct process_usage {
  double processor_seconds = 0; ///< CPU time of all threads since the start of the process
  std::uint64_t resident_bytes = 0;
};

/// Returns the CPU time and memory of a process. All members are zero if the process has ended.
[[nodiscard]] process_usage usage_of(pid_t process);

} // namespace farcall::tool
