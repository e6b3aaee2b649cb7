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

/// Gives the terminal to a process group, also from the background.
void give_terminal(int terminal, pid_t group) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTTOU);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  (void)::tcsetpgrp(terminal, group);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

/// In the child: the terminal is its own from here on.
[[noreturn]] void execute_on(int terminal, pid_t parent, const std::vector<std::string>& words) {
  // Whoever kills our parent means this program.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(cannot_execute_status);
  ::setpgid(0, 0);
  give_terminal(terminal, ::getpid());
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(terminal, fd);
  try {
    execute(words);
  } catch (const failed_run& e) {
    (void)std::fprintf(stderr, "farcall: %s\n", e.what());
  }
  ::_exit(cannot_execute_status);
}

/// Runs the program in the terminal's foreground, and what has started us in its background; where
/// the user suspends it, all of them, as a shell's job is.
int run_in_foreground(const std::vector<std::string>& words) {
  const unique_fd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (!terminal)
    throw failed_run(
        fmt::format("there is no terminal for {}: {}", words.front(), reason_text(errno)));
  // Back to the host's group, which the shell knows: targets have groups of their own.
  (void)::setpgid(0, ::getpgid(::getppid()));
  const pid_t others = ::getpgrp();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(errno)));
  if (child == 0) execute_on(terminal.get(), parent, words);
  ::setpgid(child, child); // the child does the same, and either may be first
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return cannot_execute_status;
    }
    give_terminal(terminal.get(), others);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    ::kill(-others, SIGSTOP); // this process, too: it goes on once the shell says so
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
          .run = [options](const std::vector<std::string>& rest) {
            if (rest.empty()) throw usage_problem("process-group: give the program's words");
            if (options->terminal) return run_in_foreground(rest);
            ::setpgid(0, 0);
            execute(rest);
          }};
}

} // namespace farcall::tool
