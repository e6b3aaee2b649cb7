// SPDX-License-Identifier: Apache-2.0
#include "spawn_command.hpp"

#include <farcall/base/settings.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/process.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::am2 {
namespace {

/// Environment variable that contains the abstract name of the socket to which spawned processes
/// report.
constexpr const char* report_variable = "AM2_SPAWN_REPORT";
constexpr const char* name_begin = "farcall-am2-";

struct socket_address {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

/// Returns the address of an abstract name; an empty one if the name is too long.
socket_address address_of(std::string_view name) noexcept {
  socket_address made;
  if (name.size() >= sizeof made.address.sun_path) return made;
  made.address.sun_family = AF_UNIX;
  name.copy(made.address.sun_path + 1, name.size());
  made.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

unique_fd make_socket() noexcept {
  return unique_fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Makes the socket to which spawned processes report, and puts its name into the environment.
/// Returns no socket if the system has none.
unique_fd open_reports() {
  unique_fd made = make_socket();
  std::uint64_t number = 0;
  if (!made || ::getrandom(&number, sizeof number, 0) != sizeof number) return {};
  const std::string name = name_begin + std::to_string(number);
  const socket_address at = address_of(name);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&at.address), at.bytes) != 0) return {};
  ::setenv(report_variable, name.c_str(), 1);
  return made;
}

bool has_report(const unique_fd& reports) noexcept {
  char byte = 0;
  return !reports || ::recv(reports.get(), &byte, sizeof byte, 0) >= 0;
}

/// Process number of the command, to which pass_on() sends signals.
constinit std::atomic<pid_t> command_process{0};

void pass_on(int signal) {
  const int error_before = errno;
  if (const pid_t to = command_process.load(std::memory_order_relaxed); to > 0) ::kill(to, signal);
  errno = error_before;
}

/// Sets the reactions of this process to signals while the command runs. The terminal sends its
/// signals to the command, too.
void wait_for_signals_of_command() noexcept {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  for (const int from_terminal : {SIGINT, SIGQUIT})
    ::sigaction(from_terminal, &action, nullptr);
  action.sa_handler = &pass_on;
  action.sa_flags = SA_RESTART;
  for (const int passed : {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2})
    ::sigaction(passed, &action, nullptr);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

/// Starts a shell with the command line. Returns its process number, or a negative number.
pid_t start(const std::string& line) {
  const pid_t self = ::getpid();
  // Block the signals until the reactions to them are set in this process. In the child, they have
  // the reactions of the program.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    // End the command if this process is killed, as if this process were the command.
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != self) ::_exit(1);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    std::fprintf(stderr, "AM-2: cannot execute /bin/sh: %s\n", std::strerror(errno));
    ::_exit(127);
  }
  if (child > 0) {
    command_process.store(child, std::memory_order_relaxed);
    wait_for_signals_of_command();
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return child;
}

/// True if the user has ended the command, by the terminal or by a signal that pass_on() sent.
bool is_ended_by_user(int status) noexcept {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return signal == SIGINT || signal == SIGQUIT || signal == SIGHUP || signal == SIGTERM;
}

/// Returns the status of waitpid() in words that follow "has", such as "ended with status 3".
std::string text_of_end(int status) {
  if (WIFSIGNALED(status)) return "been killed by " + signal_text(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  return code == 0 ? "ended without an error" : "ended with status " + std::to_string(code);
}

} // namespace

int run_spawn_command(const spawn_command& command) {
  const unique_fd reports = open_reports();
  const pid_t child = start(command.line);
  if (child < 0) {
    std::fprintf(stderr, "AM-2: cannot start the command in %s: %s\n", command.name.c_str(),
                 std::strerror(errno));
    return 1;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool has_failed = status != 0;
  if (!is_ended_by_user(status) && !has_report(reports) && (has_failed || !command.names_program)) {
    std::fprintf(stderr,
                 "AM-2: the command in %s, \"%s\", has %s, and no process of this program has "
                 "begun on this machine; let the command start %%N processes by the command line "
                 "%%C, as in \"farcall run --spmd -n %%N %%C\"\n",
                 command.name.c_str(), command.text.c_str(), text_of_end(status).c_str());
    if (!has_failed) return 1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void note_begin_of_spawned() noexcept {
  const char* const name = std::getenv(report_variable);
  if (name == nullptr || !std::string_view(name).starts_with(name_begin)) return;
  const socket_address to = address_of(name);
  const unique_fd from = make_socket();
  // Ignore a failure: the socket is on another machine, or has reports enough.
  if (from && to.bytes > 0) {
    (void)::sendto(from.get(), "", 1, 0, reinterpret_cast<const sockaddr*>(&to.address), to.bytes);
  }
  // Programs that this process starts later do not belong to the job.
  ::unsetenv(report_variable);
}

} // namespace farcall::am2
