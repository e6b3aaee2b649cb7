// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A forked child that executes a program when begin() is called, so that sampling can begin with
/// the program's first instruction. Not thread-safe.
class started_program {
 public:
  /// Forks a child for the program. `program` is a path. Signals stay blocked in this process, and
  /// are unblocked in the child. Throws failed_run.
  started_program(std::string program, const std::vector<std::string>& words);
  started_program(const started_program&) = delete;
  started_program& operator=(const started_program&) = delete;
  /// Kills the child if begin() was not called. A running program is left running.
  ~started_program();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Returns a descriptor that becomes readable when the program has ended.
  [[nodiscard]] int ended() const { return pidfd_.get(); }
  /// Tells the child to execute the program. Returns before the child's exec.
  void begin();
  /// Throws failed_run if the child could not execute the program. Blocks until the child's exec,
  /// so it does not block if the program has ended, or if samples have shown that the program runs.
  void check_exec();
  /// Waits for the program's end. Returns its status as in shells, which is 128 plus the signal's
  /// number if a signal ended the program.
  [[nodiscard]] int wait();
  /// Must be called if other code has waited for the child's end, so that this object does not wait
  /// for the child or kill it.
  void note_end() { pid_ = -1; }

 private:
  [[noreturn]] void become_program(char* const* arguments, int go, int failure) const;

  std::string program_;
  unique_fd go_;
  unique_fd failure_;
  unique_fd pidfd_;
  pid_t pid_ = -1;
};

/// Actions that the received signals request.
struct asked {
  bool to_end = false;
  int signal = 0; ///< signal to forward to the program; 0 if the program has received it directly
};

/// Receives SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD by a descriptor during the lifetime of
/// this object. Not thread-safe.
class taken_signals {
 public:
  /// Throws failed_run.
  taken_signals();
  taken_signals(const taken_signals&) = delete;
  taken_signals& operator=(const taken_signals&) = delete;
  ~taken_signals();

  /// Returns a descriptor that becomes readable when a signal has arrived.
  [[nodiscard]] int readable() const { return descriptor_.get(); }
  /// Takes the pending signals. Does not block.
  [[nodiscard]] asked read() const;

 private:
  sigset_t before_;
  unique_fd descriptor_;
};

} // namespace farcall::tool
