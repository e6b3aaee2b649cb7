// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/helper_scripts.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Time between two checks whether processes have ended.
constexpr long poll_interval_ns = 2'000'000;
/// Time after the deadline for which this process still waits for the end of the supervisor, the
/// process that runs the scripts.
constexpr std::chrono::milliseconds end_time{300};

using files = std::array<int, helper_scripts>;

/// Forks without running the atfork handlers, because they may wait for locks.
pid_t fork_here() noexcept {
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  return ::_Fork();
#define FARCALL_HAS_FORK
#endif
#endif
#ifndef FARCALL_HAS_FORK
  return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#endif
}

/// Closes all descriptors from `first` on. Otherwise this child would hold copies of the dying
/// process's sockets, and peers would not notice that the process has ended.
void close_from(int first) noexcept {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  constexpr int most = 4096;
  for (int file = first; file != most; ++file)
    ::close(file);
}

bool has_text(int file) noexcept {
  struct stat status{};
  return ::fstat(file, &status) == 0 && status.st_size != 0;
}

bool has_ended(pid_t child) noexcept {
  // The result is also true if other code of the program has reaped the child.
  return ::waitpid(child, nullptr, WNOHANG) != 0;
}

void pause_between_polls() noexcept {
  const timespec pause{.tv_sec = 0, .tv_nsec = poll_interval_ns};
  ::nanosleep(&pause, nullptr);
}

/// Lowers the priority of this process, and of the processes that it starts, below all other
/// processes.
void give_way() noexcept {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
}

[[noreturn]] void run_shell(char* script, int output, bool gives_way) noexcept {
  if (gives_way) give_way();
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDWR);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(nothing, STDERR_FILENO) < 0)
    ::_exit(1);
  close_from(STDERR_FILENO + 1);
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  std::array<char, 8> shell{"/bin/sh"};
  std::array<char, 3> option{"-c"};
  std::array<char*, 4> arguments{shell.data(), option.data(), script, nullptr};
  ::execve(shell.data(), arguments.data(), environ);
  ::_exit(1);
}

/// Kills a script together with the processes that it has started, which are in its process group.
void kill_script(pid_t shell) noexcept {
  ::kill(-shell, SIGKILL);
  ::kill(shell, SIGKILL);
  ::waitpid(shell, nullptr, 0);
}

/// Runs the scripts from a separate process, which outlives the dying process.
[[noreturn]] void supervise_scripts(std::array<fixed_text, helper_scripts>& scripts,
                                    const files& outputs, pid_t dying, time_point deadline,
                                    bool gives_way) noexcept {
  std::array<pid_t, helper_scripts> shells{};
  for (std::size_t i = 0; i != shells.size(); ++i) {
    shells[i] = fork_here();
    if (shells[i] == 0) run_shell(scripts[i].data(), outputs[i], gives_way);
    if (shells[i] > 0) ::setpgid(shells[i], shells[i]);
  }
  std::array<bool, helper_scripts> are_done{};
  const auto is_enough = [&] {
    bool are_all_done = true;
    for (std::size_t i = 0; i != shells.size(); ++i) {
      are_done[i] = are_done[i] || shells[i] < 0 || has_ended(shells[i]);
      are_all_done = are_all_done && are_done[i];
    }
    return are_all_done || (are_done.front() && has_text(outputs.front()));
  };
  while (!is_enough() && ::getppid() == dying && clock::now() < deadline)
    pause_between_polls();
  bool was_cut = false;
  for (std::size_t i = 0; i != shells.size(); ++i) {
    if (are_done[i]) continue;
    kill_script(shells[i]);
    was_cut = true;
  }
  // If a script was killed, continue the dying process by SIGCONT, because a killed debugger may
  // have left it stopped.
  if (was_cut && ::getppid() == dying) ::kill(dying, SIGCONT);
  ::_exit(0);
}

} // namespace

bool run_helper_scripts(std::array<fixed_text, helper_scripts>& scripts, fixed_text& output,
                        time_point deadline, bool gives_way) noexcept {
  files outputs{};
  for (int& file : outputs) {
    file = ::memfd_create("farcall-report", MFD_CLOEXEC);
    if (file < 0) return false;
  }
#ifdef PR_SET_PTRACER
  // Allow any process to attach as a debugger. Some systems otherwise allow this only to ancestors
  // of this process, and the debugger is a descendant.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
#endif
  const pid_t self = ::getpid();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t supervisor = fork_here();
  if (supervisor == 0) {
    // Move the outputs to the first descriptors after the standard ones and close all others,
    // because the supervisor must not keep sockets of the dying process open.
    std::array<int, helper_scripts> kept{};
    for (std::size_t i = 0; i != kept.size(); ++i)
      kept[i] = ::fcntl(outputs[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1 + 8);
    for (std::size_t i = 0; i != kept.size(); ++i) {
      const int to = STDERR_FILENO + 1 + static_cast<int>(i);
      ::dup3(kept[i], to, O_CLOEXEC);
      kept[i] = to;
    }
    close_from(STDERR_FILENO + 1 + static_cast<int>(kept.size()));
    supervise_scripts(scripts, kept, self, deadline, gives_way);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (supervisor < 0) return false;
  while (!has_ended(supervisor) && clock::now() < deadline + end_time)
    pause_between_polls();
  for (const int file : outputs) {
    if (output.add_file(file)) return true;
  }
  return clock::now() < deadline;
}

} // namespace farcall
