#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall {

/// A child process that runs a target. Owns it: it is killed and reaped at the end, unless it ended
/// before.
class child_process {
 public:
  child_process() noexcept = default;
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// Starts `program` with these arguments (argv[0] included) and our environment plus
  /// `variable=value`. It gets the descriptor `inherited`, and else only those that the user left
  /// without close-on-exec; farcall's own all have it. Throws start_failed with the
  /// reason when the program cannot be executed.
  [[nodiscard]] static child_process start(const std::string& program,
                                           const std::vector<std::string>& arguments,
                                           const std::string& variable, const std::string& value,
                                           int inherited);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Becomes readable when the process ends; -1 when the system has no such descriptor.
  [[nodiscard]] int end_fd() const noexcept { return pidfd_.get(); }

  /// How it ended, in words, or nothing while it runs. Reaps it. Waits until `deadline`.
  [[nodiscard]] std::optional<std::string> wait(time_point deadline);

  void kill() noexcept;

 private:
  pid_t pid_ = 0;
  unique_fd pidfd_;
  std::optional<std::string> ended_;
};

/// The arguments that this process was started with.
[[nodiscard]] std::vector<std::string> own_arguments();

} // namespace farcall
