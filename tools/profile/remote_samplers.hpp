#pragma once

#include "recorded_samples.hpp"
#include "sampler.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

#include <sys/types.h>

namespace farcall::tool {

/// Samples the targets that servers elsewhere have started for the jobs of this machine's
/// processes, with the sampler that each server has (server_sampler.hpp). Which targets those are
/// is in the counters of the hosts. Names are looked up in this machine's files where these are the
/// same, else there.
class remote_samplers {
 public:
  /// Looks at a process and its descendants from now on, on threads of its own, which signals do
  /// not reach that the caller has blocked. Forgets this process's settings of farcall, which are
  /// meant for the program. Only servers of hosts that this process's user owns are asked. A server
  /// that does not answer for as long as `patience` is given up, and at the end it has so long for
  /// all that is left. Throws std::system_error.
  remote_samplers(pid_t root, const sampler_options& options,
                  std::chrono::milliseconds patience = std::chrono::minutes(1));
  remote_samplers(const remote_samplers&) = delete;
  remote_samplers& operator=(const remote_samplers&) = delete;
  ~remote_samplers();

  /// No more samples. Waits for the servers; there are no threads afterwards.
  void stop();
  /// Then: adds what there is to the profile, which began at that record_time(), and has what was
  /// sampled here. A line to standard error says which targets are missing, and why.
  void add_to(profile& into, std::uint64_t start, const lookup_progress& tell) const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace farcall::tool
