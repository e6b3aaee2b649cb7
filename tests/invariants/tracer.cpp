// SPDX-License-Identifier: Apache-2.0
#include "tests/invariants/tracer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr int not_allowed = 77;

/// Returns the system call at which a thread is stopped; `op` is PTRACE_SYSCALL_INFO_NONE if it is
/// unknown.
__ptrace_syscall_info syscall_of(pid_t thread) {
  __ptrace_syscall_info info{};
  const long got =
      ::ptrace(PTRACE_GET_SYSCALL_INFO, thread, reinterpret_cast<void*>(sizeof info), &info);
  if (got <= 0) info.op = PTRACE_SYSCALL_INFO_NONE;
  return info;
}

/// Traces the program and its children until all have ended.
trace_result follow(pid_t program) {
  trace_result result;
  std::map<unsigned long, bool> open;
  int status = 0;
  if (::waitpid(program, &status, 0) != program) return result;
  if (!WIFSTOPPED(status)) {
    // The program ended before it could be traced.
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
  }
  constexpr long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                           PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (::ptrace(PTRACE_SETOPTIONS, program, nullptr, options) != 0) {
    ::kill(program, SIGKILL);
    ::waitpid(program, &status, 0);
    return result;
  }
  result.was_allowed = true;
  (void)::ptrace(PTRACE_SYSCALL, program, nullptr, 0);

  for (;;) {
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == EINTR) continue;
    if (thread < 0) return result; // all have ended
    if (!WIFSTOPPED(status)) {
      if (thread == program) result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      continue;
    }
    long pass_on = 0;
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      const __ptrace_syscall_info info = syscall_of(thread);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        const auto first = info.entry.args[0];
        if (info.entry.nr == SYS_prctl && first == static_cast<unsigned long>(mark_kind::begin)) {
          open[info.entry.args[1]] = true;
          result.calls[info.entry.args[1]];
        } else if (info.entry.nr == SYS_prctl &&
                   first == static_cast<unsigned long>(mark_kind::end)) {
          open[info.entry.args[1]] = false;
        } else {
          for (const auto& [window, is_open] : open) {
            if (is_open) result.calls[window].push_back({thread, info.entry.nr});
          }
        }
      }
    } else if (signal != SIGTRAP && signal != SIGSTOP) {
      pass_on = signal;
    }
    (void)::ptrace(PTRACE_SYSCALL, thread, nullptr, pass_on);
  }
}

} // namespace

void mark(mark_kind kind, unsigned long window) noexcept {
  // The kernel refuses this unknown option; the tracer sees the call.
  ::syscall(SYS_prctl, static_cast<unsigned long>(kind), window, 0UL, 0UL, 0UL);
}

trace_result trace_self(const char* variable) {
  const pid_t program = ::fork();
  if (program == 0) {
    ::setenv(variable, "1", 1);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(not_allowed);
    char name[] = "traced";
    char* const arguments[] = {name, nullptr};
    ::execv("/proc/self/exe", arguments);
    ::_exit(not_allowed);
  }
  return follow(program);
}

std::string text_of(const std::vector<traced_call>& calls) {
  std::map<std::pair<pid_t, unsigned long>, int> counts;
  for (const traced_call& c : calls)
    ++counts[{c.thread, c.number}];
  std::string text;
  for (const auto& [what, count] : counts) {
    text += std::to_string(count) + " x system call " + std::to_string(what.second) +
            " by thread " + std::to_string(what.first) + "; ";
  }
  return text;
}

} // namespace farcall::test
