// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modules.hpp"
#include "recording.hpp"

#include <farcall/base/clock.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Thrown if the kernel forbids this process to trace another process.
struct ptrace_refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Samples processes with ptrace, on systems that forbid perf_event_open. At each tick, the session
/// interrupts the running threads and reads their registers. This slows the threads down more than
/// perf_event_open does, and sees only the functions that run at a tick. All calls must come from
/// the same thread, because only the thread that attaches to a process may trace it.
class ptrace_session {
 public:
  /// `has_callers`: follow frame pointers.
  ptrace_session(unsigned samples_per_second, bool has_callers, recording& into, modules& files);
  ptrace_session(const ptrace_session&) = delete;
  ptrace_session& operator=(const ptrace_session&) = delete;
  ~ptrace_session();

  /// Samples a child of this process, beginning before its exec. Throws ptrace_refused.
  void add_from_exec(pid_t child);
  /// Samples all threads of a process and of its descendants, if this process may trace them.
  /// Returns false if the process has ended. Throws ptrace_refused.
  [[nodiscard]] bool add_running(pid_t root);

  /// Returns the time of the next tick, which is the next time at which running threads are
  /// sampled.
  [[nodiscard]] time_point next_tick() const { return next_tick_; }
  /// Handles threads that have stopped or ended, and the tick if it is due. Must be called on
  /// SIGCHLD and at next_tick(). Does not block.
  void work();
  /// Returns the status with which a sampled process has ended, as wait() reports it. Returns
  /// nothing if the process has not ended.
  [[nodiscard]] std::optional<int> status_of(pid_t process) const;
  /// Detaches from all threads. Blocks for at most a second, until the threads have stopped.
  void finish();

 private:
  struct traced {
    pid_t process = 0;
    /// True if the thread was interrupted for a sample, which is taken when the thread stops.
    bool is_interrupted = false;
    bool is_listening = false; ///< true if a signal such as SIGSTOP has stopped the thread
    bool is_named = false;
    /// True if the kernel has reported the creation of the thread. Also true for threads whose
    /// creation is not reported, because no traced thread has created them.
    bool is_told = false;
    std::uint64_t ran = 0; ///< CPU time of the thread in nanoseconds, at its last sample
    /// Number of times that the thread had been scheduled when the tick came at which it was
    /// interrupted.
    std::uint64_t times_run = 0;
    bool is_displaced = false; ///< true if this process used the thread's processor at the tick
  };

  [[nodiscard]] bool seize(pid_t process, pid_t thread);
  void describe(pid_t process);
  void read_mappings(pid_t process);
  void handle_stop(pid_t thread, int status);
  void handle_event(pid_t thread, int event);
  void handle_exec(pid_t process);
  /// Adds a new thread that a traced thread has created. `parent_thread` is the creator; it is 0 if
  /// the kernel has not reported the creator yet.
  void add_made(pid_t thread, pid_t parent, pid_t parent_thread);
  void sample(pid_t thread, traced& of);
  void tick();
  void collect();

  unsigned samples_per_second_;
  bool has_callers_;
  recording& into_;
  modules& files_;
  time_point next_tick_;
  std::map<pid_t, traced> threads_;
  /// For each process, the time at which its mappings were last read.
  std::map<pid_t, time_point> mapped_at_;
  std::map<pid_t, int> statuses_;
  std::set<pid_t>
      ended_unreported_; ///< threads that ended before the kernel has reported their creation
  bool is_ending_ = false;
};

} // namespace farcall::tool
