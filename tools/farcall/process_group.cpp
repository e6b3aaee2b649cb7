// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

struct group_options {
  bool terminal = false;
};

constexpr int cannot_execute_status = 127;

[[noreturn]] void execute(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(errno)));
}

/// Makes a process group the foreground group of the terminal. A process in the background may do
/// so too, because SIGTTOU, which would stop it, is blocked meanwhile.
void give_terminal(int terminal, pid_t group) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTTOU);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  (void)::tcsetpgrp(terminal, group);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

/// Runs in the forked child: makes the child a process group in the foreground of the terminal, and
/// executes the program.
[[noreturn]] void execute_on(int terminal, pid_t parent, const std::vector<std::string>& words) {
  // Make the kernel kill the program if the parent ends. The host knows only the parent, and kills
  // the parent when it wants to end the program.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(cannot_execute_status);
  ::setpgid(0, 0);
  give_terminal(terminal, ::getpid());
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(terminal, fd);
  try {
    execute(words);
  } catch (const failed_run& e) {
    (void)std::fprintf(stderr, "farcall process-group: %s\n", e.what());
  }
  ::_exit(cannot_execute_status);
}

/// Runs a program in the foreground of the terminal, while the host, which has started this
/// command, is in the background. If the user suspends the program, the host and this command stop
/// too. So the shell sees one job, which it can continue.
int run_in_foreground(const std::vector<std::string>& words) {
  const unique_fd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (!terminal)
    throw failed_run(
        fmt::format("there is no terminal for {}: {}", words.front(), reason_text(errno)));
  // Join the process group of the parent, which is the host. The shell knows this group, but not
  // the separate group that a target has.
  (void)::setpgid(0, ::getpgid(::getppid()));
  const pid_t others = ::getpgrp();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(errno)));
  if (child == 0) execute_on(terminal.get(), parent, words);
  // The parent and the child both make this call, because either may run first.
  ::setpgid(child, child);
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return cannot_execute_status;
    }
    give_terminal(terminal.get(), others);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    ::kill(-others, SIGSTOP); // stops this process too, until the shell continues the group
    give_terminal(terminal.get(), child);
    ::kill(-child, SIGCONT);
  }
}

} // namespace

command command_process_group() {
  auto options = std::make_shared<group_options>();
  return {.name = "process-group",
          .text = "Run a program in a process group of its own; 'farcall run --gdb' starts nodes "
                  "by it",
          .options = {{.name = "--terminal",
                       .value = &options->terminal,
                       .text = "In the foreground of the terminal, which it reads and writes"}},
          .takes_rest = command::rest::after_options,
          .is_internal = true,
          .run = [options](const std::vector<std::string>& rest) {
            if (rest.empty())
              throw usage_problem("no program given; give the program and its arguments");
            if (options->terminal) return run_in_foreground(rest);
            ::setpgid(0, 0);
            execute(rest);
          }};
}

} // namespace farcall::tool
