#pragma once

#include "perf_record.hpp"

#include <farcall/base/node_id.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

/// What /proc says of processes. One that has ended, or that this user may not look at, gives
/// nothing; none of these throws for it.
namespace farcall::tool {

/// What the environment of a process says about its part in a job.
struct process_part {
  bool is_target = false; ///< a host has started it
  bool is_server = false; ///< starts targets for hosts elsewhere, and has no numbers for them
  node_id rank = no_node; ///< that a launcher has given it
};

/// A process, and all that it and its descendants have started; those of one parent in the order of
/// their starts. Without the calling process, which may be one of them.
[[nodiscard]] std::vector<pid_t> with_descendants(pid_t root);
[[nodiscard]] bool is_process(pid_t process);
[[nodiscard]] std::vector<pid_t> threads_of(pid_t process);
[[nodiscard]] pid_t parent_of(pid_t process);
[[nodiscard]] process_part part_of(pid_t process);
/// The other processes of this machine that the same launch by mpirun, srun or mpiexec has started.
[[nodiscard]] std::vector<pid_t> launched_with(pid_t process);
/// Its executable mappings.
[[nodiscard]] std::vector<map_record> mappings_of(pid_t process);
[[nodiscard]] std::string program_of(pid_t process);
[[nodiscard]] std::string name_of(pid_t process, pid_t thread);
/// The words that it was started with, and blanks between them.
[[nodiscard]] std::string command_of(pid_t process);
/// A variable of the environment that it was started with, as it was then; nothing where it has
/// none.
[[nodiscard]] std::optional<std::string> variable_of(pid_t process, std::string_view name);
struct thread_state {
  char letter = 0;    ///< R runs or is about to, S sleeps, Z has ended; 0 when it is gone
  int processor = -1; ///< that it runs on, or ran on last
};
[[nodiscard]] thread_state state_of(pid_t process, pid_t thread);

} // namespace farcall::tool
