#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A forked helper. It leaves without running destructors of this program, and is killed and reaped
/// when this object goes. Start it while the process has one thread: the child inherits locks, not
/// the threads that hold them.
class forked_process {
 public:
  /// Whether the child leads a process group of its own, so that what it starts can be ended with
  /// it.
  enum class group { ours, own };

  /// Runs `body` in a new process; its result is the exit status. An exception in it prints one
  /// line and ends in 1.
  explicit forked_process(const std::function<int()>& body, group membership = group::ours);
  ~forked_process();
  forked_process(const forked_process&) = delete;
  forked_process& operator=(const forked_process&) = delete;
  forked_process(forked_process&&) = delete;
  forked_process& operator=(forked_process&&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// False from the moment that the child has ended; reaps it then.
  [[nodiscard]] bool alive();
  /// Waits for its end; false when it still runs at the deadline.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline);
  /// Ends it by force, with its group when it has its own. It must not have been reaped yet.
  void end();
  /// Its exit status once it has ended by itself; nothing while it runs or when a signal ended it.
  [[nodiscard]] std::optional<int> exit_status() const;
  /// "exit status 3", "killed by signal 11"; empty while it runs.
  [[nodiscard]] std::string fate() const;

 private:
  pid_t pid_ = -1;
  group membership_;
  std::optional<int> status_;
};

/// True in a child whose parent has gone: what spins must ask now and then, so that it does not
/// spin for ever.
[[nodiscard]] bool orphaned(pid_t parent);

/// What a program that was started with arguments said, and how it ended.
struct program_result {
  int exit_status = -1; ///< 128 + signal for a killed one, as shells say it
  bool timed_out = false;
  std::string standard_output;
  std::string standard_error;
};

/// Runs a program (looked up on the path) without a shell and waits for its end; after `limit` its
/// whole process group is killed. Throws failed_run when it cannot be started at all.
[[nodiscard]] program_result run_program(const std::vector<std::string>& words,
                                         std::chrono::seconds limit);

/// Samples from a measuring child to its parent, or the reason why there are none.
struct measured {
  std::vector<double> samples = {};
  std::string failure = {};
  std::string remark = {}; ///< what else is worth knowing, for example a version
};

/// Forks a process that measures, and hands over what `body` returned. It isolates this process
/// from libraries that install signal handlers, hooks and threads. A child that throws, dies or
/// exceeds the limit gives a failure text.
[[nodiscard]] measured measure_isolated(const std::function<std::vector<double>()>& body,
                                        std::chrono::seconds limit);

/// What shells say of a process that has ended, from what waitpid() says: its exit status, or 128
/// and the number of the signal.
[[nodiscard]] int shell_status_of(int status) noexcept;

} // namespace farcall::tool
