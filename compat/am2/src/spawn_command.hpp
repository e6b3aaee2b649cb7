// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Runs the user's command that starts the processes of a job (AMUDP_CSPAWN_CMD).
namespace farcall::am2 {

struct spawn_command {
  std::string name; ///< name of the variable that has the command, for errors
  std::string text; ///< text of the variable, for errors
  std::string line; ///< command line for a shell
  /// True if the command has the program's name. Such a command may start the processes on other
  /// machines, or later, so that none of them may have begun here when the command ends.
  bool names_program = false;
};

/// Runs the command, and returns the status with which this process shall exit: the command's own
/// status, or 1 if the command has ended without an error and has started nothing. If no process of
/// the job has begun on this machine, and the command has failed or does not have the program's
/// name, prints why. Signals that would end this process are passed on to the command.
[[nodiscard]] int run_spawn_command(const spawn_command& command);

/// Tells the process that runs run_spawn_command(), if there is one on this machine, that a process
/// of its job has begun.
void note_begin_of_spawned() noexcept;

} // namespace farcall::am2
