// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/support.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {

/// A forked child that runs `body` and exits with its result. The process must have one thread when
/// it constructs this object. The destructor kills and reaps the child.
class forked_child {
 public:
  explicit forked_child(const std::function<int()>& body) {
    // Otherwise parent and child would both write the buffered output.
    std::fflush(nullptr);
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): after the flush
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ != 0) return;
    int status = 99;
    try {
      status = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "in the child process: %s\n", e.what());
    }
    std::fflush(nullptr);
    // _exit(): static objects and exit handlers belong to the parent.
    ::_exit(status);
  }
  forked_child(const forked_child&) = delete;
  forked_child& operator=(const forked_child&) = delete;
  ~forked_child() {
    kill();
    (void)wait();
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  void kill() noexcept {
    if (!ended_) ::kill(pid_, SIGKILL);
  }

  /// Returns the child's exit status, or -1 if a signal ended the child. Kills a child that has not
  /// ended after wait_limit.
  [[nodiscard]] int wait() {
    if (ended_) return *ended_;
    int status = 0;
    const auto reaped = [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; };
    if (!eventually(reaped)) {
      kill();
      ::waitpid(pid_, &status, 0);
    }
    ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return *ended_;
  }

 private:
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

} // namespace farcall::test
