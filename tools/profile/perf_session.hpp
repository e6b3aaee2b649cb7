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

/// Samples processes with perf_event_open, into a recording. One thread.
class perf_session {
 public:
  /// Throws perf_refused or failed_run.
  perf_session(unsigned samples_per_second, call_graph stacks, recording& into, modules& files);
  perf_session(const perf_session&) = delete;
  perf_session& operator=(const perf_session&) = delete;
  ~perf_session();

  /// Samples a child of this process from its next exec on, and what it starts. Throws perf_refused
  /// or failed_run.
  void add_from_exec(pid_t child);
  /// Samples all threads of a process and of its descendants, but for those that it may not. False
  /// when the process has ended. Throws perf_refused or failed_run.
  [[nodiscard]] bool add_running(pid_t root);

  [[nodiscard]] const std::vector<int>& readable() const { return events_.readable(); }
  /// Takes what has been sampled. Between two calls less time passes than a ring has room for.
  void read();
  /// Stops, and takes what is left.
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
  std::vector<noted_record> noted_; ///< not yet in the recording
  std::uint64_t count_ = 0;
  std::uint64_t read_at_ = 0; ///< when the rings were read before
  std::uint64_t attached_at_ = 0;
  std::unordered_set<pid_t> attached_; ///< threads that have events of their own
};

/// CLOCK_MONOTONIC in nanoseconds: the times of records.
[[nodiscard]] std::uint64_t record_time();

} // namespace farcall::tool
