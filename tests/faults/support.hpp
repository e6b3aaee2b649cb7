#pragma once

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

/// What the tests of failures share: what a process holds, and processes with another role.
namespace farcall::test {

/// What this process holds of the system's: descriptors, mappings of shared memory, children.
struct holdings {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  std::set<pid_t> children;
  std::set<std::string> shared_files; ///< in /dev/shm

  [[nodiscard]] static holdings now();
  bool operator==(const holdings&) const = default;
  [[nodiscard]] std::string text() const;
};

/// Waits a little for the system to catch up; true when nothing but `before` is held then.
[[nodiscard]] bool nothing_left_since(const holdings& before);

/// True when there is no such process, or only the entry of one that has ended.
[[nodiscard]] bool has_ended(pid_t pid);

/// Waits until the processes have ended; false when one is still there after `bound`.
[[nodiscard]] bool all_end_within(const std::vector<pid_t>& pids, std::chrono::milliseconds bound);

/// The process numbers in a line that a role has said.
[[nodiscard]] std::vector<pid_t> pids_in(const std::string& line);

/// While it lives orphans come to this process, so that they are there to be looked at, and can be
/// waited for.
class subreaper {
 public:
  subreaper();
  subreaper(const subreaper&) = delete;
  subreaper& operator=(const subreaper&) = delete;
  ~subreaper();
};

/// Code that needs a process of its own: "host" of a job that is killed, or with other limits. Its
/// result is the exit status.
class role {
 public:
  using code = int (*)();
  role(const char* name, code run);

  /// Runs the role that the environment names; -1 when it names none.
  [[nodiscard]] static int run_if_asked();
};

/// This program in a role, with its standard output in a pipe. Killed and waited for at the end.
class role_process {
 public:
  explicit role_process(const std::string& name);
  role_process(const role_process&) = delete;
  role_process& operator=(const role_process&) = delete;
  ~role_process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// The next line that it prints; empty at its end.
  [[nodiscard]] std::string line();
  void kill(int signal) const;
  /// Exit status, or minus the signal that killed it. Kills it when it takes longer than `bound`.
  [[nodiscard]] int wait(std::chrono::seconds bound = std::chrono::seconds(60));

 private:
  pid_t pid_ = 0;
  int output_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Prints a line for role_process::line().
void say(const std::string& line);

} // namespace farcall::test
