// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A forked helper process. The destructor of this object kills and reaps the child. The child
/// itself ends without running destructors of this program. Create the object while the process has
/// only one thread, because the child would inherit locks, but not the threads that hold them.
class forked_process {
 public:
  /// Process group of the child. With `own`, the child leads a new group, so that end() kills its
  /// descendants as well.
  enum class group { ours, own };

  /// Runs `body` in a new process, whose exit status is the result of `body`. If `body` throws, the
  /// child prints one line and exits with 1.
  explicit forked_process(const std::function<int()>& body, group membership = group::ours);
  ~forked_process();
  forked_process(const forked_process&) = delete;
  forked_process& operator=(const forked_process&) = delete;
  forked_process(forked_process&&) = delete;
  forked_process& operator=(forked_process&&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// True while the child runs. If the child has ended, reaps it, keeps its status, and returns
  /// false.
  [[nodiscard]] bool alive();
  /// Waits for the end of the child. Returns false if the child still runs at the deadline.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline);
  /// Kills the child, and also its process group if the child leads one. Has no effect if the child
  /// was reaped.
  void end();
  /// Returns the exit status of the child. Returns nothing if the child was not reaped yet, or if a
  /// signal has killed it.
  [[nodiscard]] std::optional<int> exit_status() const;
  /// Returns how the child has ended, such as "exit status 3" or "killed by signal 11". Returns an
  /// empty text if the child was not reaped yet.
  [[nodiscard]] std::string fate() const;

 private:
  pid_t pid_ = -1;
  group membership_;
  std::optional<int> status_;
};

/// True if the parent of this forked child has ended. `parent` is the parent's process id. Spin
/// loops of the child must call this function regularly, so that the child can end, too.
[[nodiscard]] bool orphaned(pid_t parent);

/// Replaces this forked child by a program, which is looked up on PATH. `input` and `output` become
/// the program's standard input and output, unless they are negative. Throws failed_run.
[[noreturn]] void become_program(const std::vector<std::string>& words, int input, int output);

/// Output and exit status of a program.
struct program_result {
  /// The program's exit status. If a signal has killed the program, 128 plus the signal's number,
  /// as in shells.
  int exit_status = -1;
  bool timed_out = false;
  std::string standard_output;
  std::string standard_error;
};

/// Runs a program without a shell, and waits for its end. The program is looked up on PATH. If it
/// runs longer than `limit`, its whole process group is killed. The descriptor `input` becomes its
/// standard input, which is empty by default. Throws failed_run if the program cannot be started.
[[nodiscard]] program_result run_program(const std::vector<std::string>& words,
                                         std::chrono::seconds limit, int input = -1);

/// Samples that a child process has measured, or the reason why there are none.
struct measured {
  std::vector<double> samples = {};
  std::string failure = {};
  std::string remark = {}; ///< additional information, for example the version of a library
};

/// Runs `body`, which measures and returns samples, in a forked process. The reason is that some
/// libraries install signal handlers, hooks and threads, which must not affect this process. If the
/// child throws, dies or exceeds the limit, the result has a failure text instead of samples.
[[nodiscard]] measured measure_isolated(const std::function<std::vector<double>()>& body,
                                        std::chrono::seconds limit);

/// Converts a status that waitpid() has returned into the status that a shell would show: the exit
/// status, or 128 plus the number of the signal that has killed the process.
[[nodiscard]] int shell_status_of(int status) noexcept;

} // namespace farcall::tool
