// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_events.hpp"
#include "profile.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Settings of a sampler.
struct sampler_options {
  unsigned samples_per_second = 100;
  call_graph stacks = call_graph::frame_pointers;
  bool by_ptrace = false; ///< true to use ptrace even if perf_event_open would be permitted
};

/// A profile, and the way in which the sampled program ended.
struct sampled {
  profile seen;
  /// The program's exit status, as in shells; 0 for a process that was running already.
  int status = 0;
};

/// Starts a program, samples the program and all its descendants until the program ends, and
/// returns its status. SIGTERM and SIGHUP are forwarded to the program. SIGINT and SIGQUIT are
/// forwarded too, unless a terminal has sent them to all processes. Must be called while this
/// process has one thread. Throws failed_run if the program cannot be started or sampling is
/// forbidden; the program has not run in this case.
[[nodiscard]] sampled sample_program(const std::string& program,
                                     const std::vector<std::string>& words,
                                     const sampler_options& options);

/// Samples a process and its descendants until the process ends, the duration is over, or SIGINT,
/// SIGQUIT, SIGTERM or SIGHUP arrives. Leaves the processes unchanged. Throws usage_problem if
/// there is no such process, and failed_run if the system forbids sampling it.
[[nodiscard]] sampled sample_process(pid_t process,
                                     std::optional<std::chrono::nanoseconds> duration,
                                     const sampler_options& options);

} // namespace farcall::tool
