// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorded_samples.hpp"
#include "sampler.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

#include <sys/types.h>

namespace farcall::tool {

/// Samples the targets that servers on other machines have started for jobs of this machine's
/// processes. Each server starts a sampler on its machine for this purpose (server_sampler.hpp).
/// The counters of the hosts say which targets there are. Function names are looked up in this
/// machine's file if it is identical to the server's file, and otherwise on the server's machine.
class remote_samplers {
 public:
  /// Starts sampling for the jobs of a process and its descendants. The sampling runs on separate
  /// threads, which block the signals that the caller has blocked. Removes farcall's settings from
  /// this process's environment, because they are meant for the program. Asks only the servers of
  /// hosts that this process's user owns. Gives a server up if it does not reply within `timeout`.
  /// The collection of the remaining samples at the end may also take no longer than `timeout`.
  /// Throws std::system_error.
  remote_samplers(pid_t root, const sampler_options& options,
                  std::chrono::milliseconds timeout = std::chrono::minutes(1));
  remote_samplers(const remote_samplers&) = delete;
  remote_samplers& operator=(const remote_samplers&) = delete;
  ~remote_samplers();

  /// Stops sampling, waits for the servers, and joins the threads.
  void stop();
  /// Adds the remote samples to a profile. The profile must already have the local samples, and
  /// must have begun when record_time() was `start`. Prints a line for each missing target, with
  /// the reason, to standard error. Must be called after stop().
  void add_to(profile& into, std::uint64_t start, const lookup_progress& tell) const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace farcall::tool
