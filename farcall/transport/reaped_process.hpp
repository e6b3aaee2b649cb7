#pragma once

#include <optional>

namespace farcall {

/// How a process has ended.
struct process_end {
  bool is_signal = false; ///< killed by it; else exited
  int number = 0;         ///< of the signal, or the exit status
};

/// Asks the system how the process behind a pidfd has ended, after somebody has reaped it: the
/// system itself does so in a process that ignores SIGCHLD. Systems before Linux 6.15 do not tell.
[[nodiscard]] std::optional<process_end> end_of_reaped(int pidfd) noexcept;

/// True if the system reaps the children of this process, so that waitid() finds none.
[[nodiscard]] bool drops_exit_statuses() noexcept;

} // namespace farcall
