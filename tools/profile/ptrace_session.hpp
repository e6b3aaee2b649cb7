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

/// The kernel does not let this process trace that one.
struct ptrace_refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Samples processes with ptrace where perf_event_open is refused: at each tick the threads that
/// run are interrupted for as long as it takes to read their registers. It costs the threads more,
/// and sees only what a tick happens to meet. One thread: the one that traces.
class ptrace_session {
 public:
  /// `has_callers`: follows frame pointers.
  ptrace_session(unsigned samples_per_second, bool has_callers, recording& into, modules& files);
  ptrace_session(const ptrace_session&) = delete;
  ptrace_session& operator=(const ptrace_session&) = delete;
  ~ptrace_session();

  /// A child of this process that has yet to become its program. Throws ptrace_refused.
  void add_from_exec(pid_t child);
  /// All threads of a process and of its descendants, but for those that it may not trace. False
  /// when the process has ended. Throws ptrace_refused.
  [[nodiscard]] bool add_running(pid_t root);

  /// When the next tick is due.
  [[nodiscard]] time_point next_tick() const { return next_tick_; }
  /// Deals with threads that have stopped or ended, and with a tick that is due. Call it on SIGCHLD
  /// and at next_tick(). Does not block.
  void work();
  /// The status of wait() that a process ended with, for those that were added.
  [[nodiscard]] std::optional<int> status_of(pid_t process) const;
  /// Lets go of all threads. Waits for those that have to stop for it, for a second at most.
  void finish();

 private:
  struct traced {
    pid_t process = 0;
    bool is_interrupted = false; ///< its registers are wanted
    bool is_listening = false;   ///< stopped by a signal such as SIGSTOP
    bool is_named = false;
    bool is_told = false;  ///< its parent has said that it made it, where it has one that is traced
    std::uint64_t ran = 0; ///< nanoseconds, when it was sampled before
    std::uint64_t times_run = 0; ///< times that it had got a processor, at the tick
    bool is_displaced = false;   ///< at the tick, by this process
  };

  [[nodiscard]] bool seize(pid_t process, pid_t thread);
  void describe(pid_t process);
  void read_mappings(pid_t process);
  void handle_stop(pid_t thread, int status);
  void handle_event(pid_t thread, int event);
  void handle_exec(pid_t process);
  /// One that a traced thread has made; `parent_thread`: 0 before that one has told.
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
  std::map<pid_t, time_point> mapped_at_; ///< when a process's mappings were read
  std::map<pid_t, int> statuses_;
  std::set<pid_t> ended_untold_; ///< before their parents have told of them
  bool is_ending_ = false;
};

} // namespace farcall::tool
