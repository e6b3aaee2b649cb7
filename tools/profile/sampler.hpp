#pragma once

#include "perf_events.hpp"
#include "profile.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// What is sampled, and how.
struct sampler_options {
  unsigned samples_per_second = 100;
  call_graph stacks = call_graph::frame_pointers;
  bool by_ptrace = false; ///< even where the kernel would sample by itself
};

/// A profile, and how what was sampled has ended.
struct sampled {
  profile seen;
  int status = 0; ///< of the program, as shells say it; 0 for a process that was attached to
};

/// Starts a program, samples it and everything that it starts until it ends, and returns its
/// status. SIGTERM and SIGHUP, and SIGINT and SIGQUIT unless a terminal has sent them to all, go to
/// the program. Call it while this process has one thread. Throws failed_run where it cannot be
/// started, or the system lets nobody sample it; then it has not begun.
[[nodiscard]] sampled sample_program(const std::string& program,
                                     const std::vector<std::string>& words,
                                     const sampler_options& options);

/// Samples a process and its descendants until it ends, the time is over, or SIGINT, SIGQUIT,
/// SIGTERM or SIGHUP comes. Leaves no trace in them. Throws usage_problem when there is no such
/// process, and failed_run when the system does not let it be sampled.
[[nodiscard]] sampled sample_process(pid_t process,
                                     std::optional<std::chrono::nanoseconds> duration,
                                     const sampler_options& options);

} // namespace farcall::tool
