// SPDX-License-Identifier: Apache-2.0
#include "started_program.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

std::pair<unique_fd, unique_fd> pipe_ends() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw failed_run(fmt::format("cannot make a pipe: {}", reason_text(errno)));
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

sigset_t signals_taken() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD})
    sigaddset(&set, signal);
  return set;
}

} // namespace

started_program::started_program(std::string program, const std::vector<std::string>& words)
    : program_(std::move(program)) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  arguments.reserve(copies.size() + 1);
  for (std::string& word : copies)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto [go_read, go_write] = pipe_ends();
  auto [failure_read, failure_write] = pipe_ends();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    go_write.reset();
    become_program(arguments.data(), go_read.get(), failure_write.get());
  }
  if (child < 0) throw failed_run(fmt::format("cannot start {}: {}", program_, reason_text(errno)));
  pid_ = child;
  go_ = std::move(go_write);
  failure_ = std::move(failure_read);
  pidfd_ = unique_fd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd_) throw failed_run(fmt::format("cannot watch {}: {}", program_, reason_text(errno)));
}

started_program::~started_program() {
  if (pid_ <= 0 || !go_) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void started_program::become_program(char* const* arguments, int go, int failure) const {
  sigset_t set = signals_taken();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  char word = 0;
  // Wait for the parent's byte. If the parent has ended before it wrote the byte, the pipe ends
  // without data.
  if (read(go, &word, 1) != 1) _exit(127);
  execv(program_.c_str(), arguments);
  const int reason = errno;
  [[maybe_unused]] const auto told = write(failure, &reason, sizeof reason);
  _exit(127);
}

void started_program::begin() {
  [[maybe_unused]] const auto told = write(go_.get(), "g", 1);
  go_.reset();
}

void started_program::check_exec() {
  int reason = 0;
  ssize_t got = -1;
  do {
    got = read(failure_.get(), &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof reason) return;
  throw failed_run(text_of_failed_exec(program_, reason));
}

int started_program::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  pid_ = -1;
  return shell_status_of(status);
}

taken_signals::taken_signals() {
  const sigset_t set = signals_taken();
  sigprocmask(SIG_BLOCK, &set, &before_);
  descriptor_ = unique_fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (descriptor_) return;
  const int reason = errno;
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  throw failed_run(fmt::format("cannot take signals: {}", reason_text(reason)));
}

taken_signals::~taken_signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

asked taken_signals::read() const {
  asked result;
  signalfd_siginfo got{};
  while (::read(descriptor_.get(), &got, sizeof got) == sizeof got) {
    const int signal = static_cast<int>(got.ssi_signo);
    if (signal == SIGCHLD) continue;
    result.to_end = true;
    // Don't forward a signal from the terminal, because it has reached the program too.
    const bool is_typed = (signal == SIGINT || signal == SIGQUIT) && got.ssi_code == SI_KERNEL;
    if (!is_typed) result.signal = signal;
  }
  return result;
}

} // namespace farcall::tool
