#pragma once

#include <farcall/base/unique_fd.hpp>

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A child that becomes a program when it is told to, so that sampling can begin with the program's
/// first instruction. One thread.
class started_program {
 public:
  /// Forks. `program` is a file; signals are blocked in this process, but not in the child. Throws
  /// failed_run.
  started_program(std::string program, const std::vector<std::string>& words);
  started_program(const started_program&) = delete;
  started_program& operator=(const started_program&) = delete;
  /// Kills a child that has not been told to begin. A program that runs goes on.
  ~started_program();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable when the program has ended.
  [[nodiscard]] int ended() const { return pidfd_.get(); }
  /// Lets it begin. Its exec takes place in the meantime.
  void begin();
  /// Throws failed_run when there is no such program after all. Does not block once it has ended,
  /// or sampling has shown that it runs; else until its exec.
  void check_exec();
  /// Waits for its end. As shells say it: 128 and more for a signal.
  [[nodiscard]] int wait();
  /// Somebody else has reaped it.
  void note_end() { pid_ = -1; }

 private:
  [[noreturn]] void become_program(char* const* arguments, int go, int failure) const;

  std::string program_;
  unique_fd go_;
  unique_fd failure_;
  unique_fd pidfd_;
  pid_t pid_ = -1;
};

/// What the signals that have come ask for.
struct asked {
  bool to_end = false;
  int signal = 0; ///< to hand on to the program; 0 for one that it got itself
};

/// SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD come by a descriptor as long as this lives. One
/// thread.
class taken_signals {
 public:
  /// Throws failed_run.
  taken_signals();
  taken_signals(const taken_signals&) = delete;
  taken_signals& operator=(const taken_signals&) = delete;
  ~taken_signals();

  /// Readable when a signal has come.
  [[nodiscard]] int readable() const { return descriptor_.get(); }
  /// Does not block.
  [[nodiscard]] asked read() const;

 private:
  sigset_t before_;
  unique_fd descriptor_;
};

} // namespace farcall::tool
