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

/// A copy of this process that runs `body` and ends with its result. Make it while there is one
/// thread only. Killed and reaped at the end of its life.
class forked_child {
 public:
  explicit forked_child(const std::function<int()>& body) {
    // What is buffered would be written twice.
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
    // Nothing of the parent's is ours to end.
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

  /// Its exit status, or -1 when it was killed. Kills it when it does not end.
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
