// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace farcall {

/// How a process has ended: by a signal, or by its exit.
struct process_end {
  bool is_signal = false; ///< true if a signal has killed it; false if it has exited
  int number = 0;         ///< number of the signal, or the exit status
};

/// Asks the system how a process, given by its pidfd, has ended, although it was already reaped: by
/// other code, or by the system because its parent ignores SIGCHLD. Returns nullopt on systems
/// before Linux 6.15, which do not tell.
[[nodiscard]] std::optional<process_end> end_of_reaped(int pidfd) noexcept;

/// True if the system itself reaps the children of this process, so that their exit statuses are
/// lost and waitid() finds no child.
[[nodiscard]] bool drops_exit_statuses() noexcept;

} // namespace farcall
