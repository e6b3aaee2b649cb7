// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modules.hpp"
#include "perf_events.hpp"
#include "recording.hpp"
#include "unwinder.hpp"

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Samples processes with perf_event_open into a recording. Not thread-safe.
class perf_session {
 public:
  /// Throws perf_refused or failed_run.
  perf_session(unsigned samples_per_second, call_graph stacks, recording& into, modules& files);
  perf_session(const perf_session&) = delete;
  perf_session& operator=(const perf_session&) = delete;
  ~perf_session();

  /// Samples a child of this process and its descendants, beginning at the child's next exec.
  /// Throws perf_refused or failed_run.
  void add_from_exec(pid_t child);
  /// Samples all threads of a process and of those descendants that this process may sample.
  /// Returns false if the process has ended. Throws perf_refused or failed_run.
  [[nodiscard]] bool add_running(pid_t root);

  [[nodiscard]] const std::vector<int>& readable() const { return events_.readable(); }
  /// Takes the samples that have arrived so far. Must be called so often that no ring overflows.
  void read();
  /// Stops sampling and takes the remaining samples.
  void finish();

 private:
  void note(perf_record& record);
  void hand_on(std::uint64_t until);
  [[nodiscard]] bool is_known(const perf_record& record);
  [[nodiscard]] bool add_thread(pid_t thread, bool must_be_allowed);
  void describe(pid_t process);

  perf_events events_;
  unwinder unwinder_;
  recording& into_;
  modules& files_;
  std::vector<noted_record> noted_; ///< records that are not in the recording yet
  std::uint64_t count_ = 0;
  std::uint64_t read_at_ = 0; ///< time at which the rings were last read
  std::uint64_t attached_at_ = 0;
  std::unordered_set<pid_t> attached_; ///< threads for which events were opened
};

/// Returns the time in nanoseconds of CLOCK_MONOTONIC, which is also the clock of the records.
[[nodiscard]] std::uint64_t record_time();

} // namespace farcall::tool
