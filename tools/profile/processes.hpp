// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_record.hpp"

#include <farcall/base/node_id.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

/// Facts about processes from /proc. If a process has ended or this user may not read it, the
/// functions return an empty result, and do not throw.
namespace farcall::tool {

/// Role of a process in a job, as its environment describes it.
struct process_part {
  bool is_target = false; ///< started by a host
  /// True for a server (`farcall serve`), which starts targets for hosts on other machines, and
  /// does not know the node ids of these targets.
  bool is_server = false;
  node_id rank = no_node; ///< assigned by a launcher
};

/// Returns a process and all its descendants, except the calling process, which may be one of them.
/// The children of each parent are in the order of their starts.
[[nodiscard]] std::vector<pid_t> with_descendants(pid_t root);
[[nodiscard]] bool is_process(pid_t process);
[[nodiscard]] std::vector<pid_t> threads_of(pid_t process);
[[nodiscard]] pid_t parent_of(pid_t process);
[[nodiscard]] process_part part_of(pid_t process);
/// Returns the other processes of this machine that the same mpirun, srun or mpiexec has launched.
[[nodiscard]] std::vector<pid_t> launched_with(pid_t process);
/// Returns the executable mappings.
[[nodiscard]] std::vector<map_record> mappings_of(pid_t process);
[[nodiscard]] std::string program_of(pid_t process);
[[nodiscard]] std::string name_of(pid_t process, pid_t thread);
/// Returns the command line of a process, with spaces between the words.
[[nodiscard]] std::string command_of(pid_t process);
/// Returns a variable of the environment with which the process was started, if it was set. Changes
/// after the start are not visible.
[[nodiscard]] std::optional<std::string> variable_of(pid_t process, std::string_view name);
struct thread_state {
  /// R for a running or runnable process, S for a sleeping one, and Z for one that has ended; 0 if
  /// there is no such process.
  char letter = 0;
  int processor = -1; ///< processor on which the process runs, or ran last
};
[[nodiscard]] thread_state state_of(pid_t process, pid_t thread);

} // namespace farcall::tool
