// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <sstream>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {

/// Timeout of a command; one that takes longer hangs.
inline constexpr std::chrono::seconds command_bound{120};

/// A shell command and its output. All processes that it starts write to one pipe, so the pipe ends
/// when all nodes have ended. Orphans become children of this process, which reaps them.
class command {
 public:
  explicit command(const std::string& text) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
    output_ = ends[0];
    std::string line = "exec " + text;
    std::string shell = "sh";
    std::string option = "-c";
    char* const arguments[] = {shell.data(), option.data(), line.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    const int failure = ::posix_spawn(&pid_, "/bin/sh", &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failure != 0) throw std::system_error(failure, std::generic_category());
  }
  command(const command&) = delete;
  command& operator=(const command&) = delete;
  ~command() {
    if (!has_ended_) (void)end();
    ::close(output_);
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Reads until `what` has been written `times` times. Returns false if the output ends before.
  [[nodiscard]] bool says(const std::string& what, std::size_t times = 1) {
    while (count(what) < times) {
      if (!read_some()) return false;
    }
    return true;
  }

  /// Waits until all nodes have ended. Returns the command's exit status, or 128 + N for signal N.
  /// If nodes have not ended after the timeout, kills the command, and the test fails.
  int end() {
    while (read_some()) {
    }
    has_ended_ = true;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    // Orphans: the targets of a host that was killed.
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::size_t count(const std::string& what) const {
    std::size_t times = 0;
    for (std::size_t at = text_.find(what); at != std::string::npos; at = text_.find(what, at + 1))
      ++times;
    return times;
  }

  /// Returns the process number of the node that has written "<rank> <process>", or 0.
  [[nodiscard]] pid_t process_of(unsigned rank) const {
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      unsigned said = 0;
      pid_t process = 0;
      if (words >> said >> process && said == rank) return process;
    }
    return 0;
  }

 private:
  bool read_some() {
    pollfd readable{output_, POLLIN, 0};
    int ready = 0;
    do {
      const auto left = deadline_ - std::chrono::steady_clock::now();
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
      ready = ms <= 0 ? 0 : ::poll(&readable, 1, static_cast<int>(ms));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
      ADD_FAILURE() << "nodes have not ended: " << text_;
      ::kill(pid_, SIGKILL);
      return false;
    }
    char piece[4096];
    const ssize_t got = ::read(output_, piece, sizeof piece);
    if (got > 0) text_.append(piece, static_cast<std::size_t>(got));
    return got > 0;
  }

  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + command_bound;
  pid_t pid_ = 0;
  int output_ = -1;
  bool has_ended_ = false;
  std::string text_;
};

} // namespace farcall::test
