// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

/// Support for tests of failures: resources of a process, and processes with another role.
namespace farcall::test {

/// System resources of this process: descriptors, mappings of shared memory, children.
struct holdings {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  std::set<pid_t> children;
  std::set<std::string> shared_files; ///< in /dev/shm

  [[nodiscard]] static holdings now();
  bool operator==(const holdings&) const = default;
  [[nodiscard]] std::string text() const;
};

/// Waits up to 2 s until this process holds exactly `before`; false, with a failure, if it does
/// not.
[[nodiscard]] bool nothing_left_since(const holdings& before);

/// True if the process does not exist, or is a zombie.
[[nodiscard]] bool has_ended(pid_t pid);

/// Waits until the processes have ended; false if one is still there after `bound`.
[[nodiscard]] bool all_end_within(const std::vector<pid_t>& pids, std::chrono::milliseconds bound);

/// Returns the process numbers in a line printed by a role.
[[nodiscard]] std::vector<pid_t> pids_in(const std::string& line);

/// Makes this process the parent of orphans during its lifetime, so that they can be observed and
/// waited for.
class subreaper {
 public:
  subreaper();
  subreaper(const subreaper&) = delete;
  subreaper& operator=(const subreaper&) = delete;
  ~subreaper();
};

/// Code that needs its own process, such as a host that is killed or has other limits. Its result
/// is the exit status.
class role {
 public:
  using code = int (*)();
  role(const char* name, code run);

  /// Runs the role named by the environment; returns -1 if it names none.
  [[nodiscard]] static int run_if_asked();
};

/// This program in a role, with its standard output in a pipe. The destructor kills it and waits.
class role_process {
 public:
  explicit role_process(const std::string& name);
  role_process(const role_process&) = delete;
  role_process& operator=(const role_process&) = delete;
  ~role_process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Returns the next line that it prints; empty at the end.
  [[nodiscard]] std::string line();
  void kill(int signal) const;
  /// Returns the exit status, or minus the signal that ended it. Kills it after `bound`.
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
