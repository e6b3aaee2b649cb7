// SPDX-License-Identifier: Apache-2.0
#include "remote_servers.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/process.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds ending_time{5};
/// Longest time for which a signal stays unnoticed while servers start. The signals are blocked, so
/// they must be polled.
constexpr std::chrono::milliseconds signal_interval{100};

/// Starts the command of a server, with pipes as its standard input and output. The command runs in
/// a separate process group, because Control-C must not end the server before the program that uses
/// it.
pid_t spawn_server(const std::vector<std::string>& words, int input, int output) {
  pid_t pid = -1;
  const int reason = spawn(pid, words.front(), words,
                           {.input = input,
                            .prints_to = {.output = output},
                            .searches_path = true,
                            .ends_by_sigpipe = true});
  if (reason != 0)
    throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(reason)));
  return pid;
}

/// Runs in the forked child: executes the program. If this fails, writes errno to the pipe
/// `failure`. Calls no function that takes a lock of the C library, because another thread may have
/// held the lock at the time of the fork.
[[noreturn]] void become_program(const char* program, char* const* arguments, pid_t parent,
                                 int failure, const labelled_output* prints_to) {
  // If the parent ends, the program must end too, because the servers that it uses end with the
  // parent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  if (prints_to != nullptr) {
    dup2(prints_to->own().output, STDOUT_FILENO);
    dup2(prints_to->own().error, STDERR_FILENO);
    fcntl(prints_to->lines().output, F_SETFD, 0);
    fcntl(prints_to->lines().error, F_SETFD, 0);
  }
  execv(program, arguments);
  const int reason = errno;
  [[maybe_unused]] const auto told = write(failure, &reason, sizeof reason);
  _exit(127);
}

std::string fate_text(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

std::pair<unique_fd, unique_fd> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw failed_run(fmt::format("cannot make a pipe: {}", reason_text(errno)));
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

/// Starts a program. The kernel kills the program if the calling thread ends.
pid_t start_program(const std::string& program, const std::vector<std::string>& words,
                    labelled_output* prints_to) {
  const std::vector<char*> arguments = argument_pointers(words);
  auto [reply, failure] = make_pipe();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_program(program.c_str(), arguments.data(), parent, failure.get(), prints_to);
  int reason = pid < 0 ? errno : 0;
  failure.reset();
  if (prints_to != nullptr) prints_to->forget();
  // If the program has been executed, exec has closed the pipe, so that read() returns no data.
  if (pid > 0 && read(reply.get(), &reason, sizeof reason) > 0) waitpid(pid, nullptr, 0);
  if (reason != 0)
    throw failed_run(fmt::format("cannot start {}: {}", program, reason_text(reason)));
  return pid;
}

void forward(int from) {
  char piece[4096];
  for (;;) {
    const ssize_t got = read(from, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    for (ssize_t at = 0; at < got;) {
      const ssize_t put = write(STDOUT_FILENO, piece + at, static_cast<std::size_t>(got - at));
      // If standard output fails, drop the rest of the piece but go on reading. Otherwise the pipe
      // would become full and the targets, which print into it, would block.
      if (put < 0 && errno != EINTR) break;
      if (put > 0) at += put;
    }
  }
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    sigaddset(&set, signal);
  return set;
}

bool is_told_to_end() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1;
}

} // namespace

// ---- servers ------------------------------------------------------------------------------------

remote_server::remote_server(const host_entry& host, const std::vector<std::string>& command,
                             std::string input)
    : host_{host}, command_{shell_text(command)}, unsent_{std::move(input)} {
  auto [their_input, our_input] = make_pipe();
  auto [our_output, their_output] = make_pipe();
  try {
    pid_ = spawn_server(command, their_input.get(), their_output.get());
  } catch (const failed_run& e) {
    throw failed_run(fmt::format("host {}: {}", host_.name, e.what()));
  }
  input_ = std::move(our_input);
  output_ = std::move(our_output);
  // Writing must not block, because one server that does not read its input would delay the start
  // of the others.
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  send_input();
}

remote_server::~remote_server() {
  let_end();
  wipe(std::span(unsent_));
  end_by(clock::now() + ending_time);
  forwarder_.join();
}

void remote_server::end_by(time_point deadline) {
  if (has_ended_by(deadline)) return;
  kill(-pid_, SIGKILL);
  (void)has_ended_by(no_deadline);
}

bool remote_server::has_ended_by(time_point deadline) {
  while (pid_ > 0) {
    const pid_t got = waitpid(pid_, &status_, deadline == no_deadline ? 0 : WNOHANG);
    if (got == pid_ || (got < 0 && errno != EINTR)) {
      pid_ = -1;
    } else if (clock::now() > deadline) {
      return false;
    } else {
      usleep(1000);
    }
  }
  return true;
}

/// Writes as much of the remaining input to the server as the pipe takes. Errors are ignored,
/// because a server that does not get its input does not become ready, which receive() reports.
void remote_server::send_input() noexcept {
  while (!unsent_.empty()) {
    const ssize_t put = write(input_.get(), unsent_.data(), unsent_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    wipe(std::span(unsent_).first(static_cast<std::size_t>(put)));
    unsent_.erase(0, static_cast<std::size_t>(put));
  }
}

void remote_server::give_up(const std::string& what) const {
  throw failed_run(
      fmt::format("host {}: {} ({}); its output is above", host_.name, what, command_));
}

unsigned remote_server::port_in(const std::string& line) const {
  if (!line.starts_with("farcall: serving at tcp://")) return 0;
  const auto end = line.find(", ");
  const auto colon = line.rfind(':', end);
  unsigned port = 0;
  const char* digits = line.data() + colon + 1;
  const auto [rest, failure] = std::from_chars(digits, line.data() + line.size(), port);
  if (failure != std::errc{} || port == 0 || port > 65535) give_up("its server named no port");
  return port;
}

bool remote_server::receive() {
  // Maximum number of bytes that one call reads. Without a limit, a server that prints without end
  // would delay the other servers.
  constexpr int max_bytes = 4096;
  constexpr std::size_t max_line = 4096;
  send_input();
  pollfd waiting{output_.get(), POLLIN, 0};
  for (int n = 0; port_ == 0 && n < max_bytes && poll(&waiting, 1, 0) > 0; ++n) {
    char c = 0;
    // Read byte by byte up to the line with the port. The forwarder's thread reads everything after
    // this line.
    if (read(output_.get(), &c, 1) != 1) {
      const bool ended = has_ended_by(clock::now() + ending_time);
      const std::string where =
          host_.port == 0 ? std::string{} : fmt::format(" at port {}", host_.port);
      give_up(fmt::format("no server was started there{}: the command {}", where,
                          ended ? fate_text(status_) : "closed its output"));
    }
    if (c != '\n') {
      if (line_.size() < max_line) line_ += c;
      continue;
    }
    // Lines without a port are skipped, because the host's login shell may print some before the
    // server does.
    port_ = port_in(line_);
    line_.clear();
    if (port_ != 0)
      forwarder_ = library_thread("farcall-tool", [from = output_.get()] { forward(from); });
  }
  return port_ != 0;
}

std::string remote_server::url() const {
  return fmt::format("tcp://{}:{}?count={}", host_.address, port_, host_.count);
}

remote_servers::remote_servers(std::span<const host_entry> hosts,
                               std::span<const std::vector<std::string>> commands,
                               const std::string& input) {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    all_.push_back(std::make_unique<remote_server>(hosts[i], commands[i], input));
}

remote_servers::~remote_servers() {
  for (const auto& server : all_)
    server->let_end();
  // Wait for all servers with the same deadline. If several servers do not react, this takes no
  // longer than for one.
  const time_point deadline = clock::now() + ending_time;
  for (const auto& server : all_)
    server->end_by(deadline);
}

std::string remote_servers::urls(time_point deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    const remote_server* late = nullptr;
    for (const auto& server : all_) {
      if (server->receive()) continue;
      waiting.push_back({server->output(), POLLIN, 0});
      late = server.get();
    }
    if (late == nullptr) break;
    if (is_told_to_end()) late->give_up("a signal has ended the start");
    if (clock::now() >= deadline) late->give_up("no server began to serve there in time");
    (void)poll(waiting.data(), waiting.size(),
               poll_timeout(std::min(deadline, clock::now() + signal_interval)));
  }
  std::string all;
  for (const auto& server : all_)
    all += (all.empty() ? "" : ",") + server->url();
  return all;
}

// ---- the program --------------------------------------------------------------------------------

void block_signals() {
  const sigset_t set = our_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // Ignore SIGPIPE, which is raised by writing to a server that has ended. receive() reports the
  // end of a server.
  std::signal(SIGPIPE, SIG_IGN);
}

int run_to_end(const std::string& program, const std::vector<std::string>& words,
               labelled_output* prints_to) {
  const pid_t pid = start_program(program, words, prints_to);
  const sigset_t set = our_signals();
  for (;;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      if (prints_to != nullptr) prints_to->finish();
      return shell_status_of(status);
    }
    siginfo_t got{};
    const int signal = sigwaitinfo(&set, &got);
    // A SIGINT that comes from the terminal is not forwarded, because the program has received it
    // too.
    const bool is_known = signal == SIGINT && got.si_code == SI_KERNEL;
    if (signal > 0 && signal != SIGCHLD && !is_known) kill(pid, signal);
  }
}

} // namespace farcall::tool
