// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_session.hpp"
#include "ptrace_session.hpp"
#include "recording.hpp"
#include "sampler.hpp"

#include <farcall/base/clock.hpp>

#include <memory>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/types.h>

namespace farcall::tool {

/// Samples running processes with perf_event_open or, if the kernel refuses this, with ptrace. The
/// processes are left unchanged. Not thread-safe.
class process_sampler {
 public:
  /// `into` and `files` must outlive the sampler.
  process_sampler(const sampler_options& options, recording& into, modules& files);
  process_sampler(const process_sampler&) = delete;
  process_sampler& operator=(const process_sampler&) = delete;
  ~process_sampler();

  /// Starts sampling a process and its descendants. Returns false if the process has ended. Throws
  /// failed_run if the system forbids sampling the process.
  [[nodiscard]] bool add(pid_t process);
  /// Returns the reason why the kernel has refused perf_event_open. Returns an empty text if
  /// perf_event_open is in use.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

  /// Returns descriptors that become readable when a ring buffer is a quarter full. Returns an
  /// empty list if there are no ring buffers, because perf_event_open is not in use.
  [[nodiscard]] std::vector<int> readable() const;
  /// Returns the time at which read() must be called next.
  [[nodiscard]] time_point next_read() const;
  /// Takes the samples that have arrived so far. Does not block.
  void read();
  /// True if the process was sampled with ptrace and has ended. With perf_event_open the result is
  /// always false.
  [[nodiscard]] bool has_ended(pid_t process) const;
  /// Stops sampling and takes the remaining samples. Blocks for at most a second, until traced
  /// threads have stopped.
  void finish();

 private:
  [[nodiscard]] bool add_traced(pid_t process);

  sampler_options options_;
  recording& into_;
  modules& files_;
  std::string refusal_;
  std::unique_ptr<perf_session> perf_;
  std::unique_ptr<ptrace_session> ptrace_;
};

/// Longest time between reads of the ring buffers. It is short, so that files that a process maps
/// and soon deletes still exist when they are opened.
inline constexpr std::chrono::milliseconds ring_reading_interval{100};

/// Blocks until one of the descriptors has an event, or the deadline has passed.
void wait_for(std::vector<pollfd>& descriptors, time_point deadline);

/// Returns advice on the missing permissions, for a system that refuses both perf_event_open and
/// ptrace. `perf` and `ptrace` are the reasons of the refusals.
[[nodiscard]] std::string advice_on_rights(const std::string& perf, const std::string& ptrace);

} // namespace farcall::tool
