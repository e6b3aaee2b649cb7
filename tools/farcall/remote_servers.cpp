#include "remote_servers.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/control_socket.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds ending_time{5};
/// How often one looks for signals, which are blocked, while a server starts.
constexpr std::chrono::milliseconds signal_interval{100};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A command that serves, with its standard input and output replaced; it starts with no signal
/// blocked.
pid_t spawn_server(std::vector<std::string> words, int input, int output) {
  const std::vector<char*> arguments = pointers_to(words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  // A group of its own: it is not to be ended by Control-C before the program that uses it.
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  pid_t pid = -1;
  const int reason =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0)
    throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(reason)));
  return pid;
}

/// In the child: becomes the program, or tells `failure` why it cannot. Other threads may hold any
/// lock of the C library, so nothing here takes one.
[[noreturn]] void become_program(const char* program, char* const* arguments, pid_t parent,
                                 int failure, const labelled_output* prints_to) {
  // However we end, the program does not stay behind without its servers.
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

/// A program that is killed when the thread that starts it ends.
pid_t start_program(const std::string& program, std::vector<std::string> words,
                    labelled_output* prints_to) {
  const std::vector<char*> arguments = pointers_to(words);
  auto [answer, failure] = make_pipe();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_program(program.c_str(), arguments.data(), parent, failure.get(), prints_to);
  int reason = pid < 0 ? errno : 0;
  failure.reset();
  if (prints_to != nullptr) prints_to->let_go();
  // Ends without a word when the program has begun.
  if (pid > 0 && read(answer.get(), &reason, sizeof reason) > 0) waitpid(pid, nullptr, 0);
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
      if (put < 0 && errno != EINTR) break; // still read, or targets would wait for us
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
  // Whoever does not read it does not hold up the others.
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  send_input();
}

remote_server::~remote_server() {
  let_end();
  wipe(std::span(unsent_));
  end_by(clock::now() + ending_time);
  if (forwarder_.joinable()) forwarder_.join();
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

/// Whether somebody takes it shows in the answer.
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
      fmt::format("host {}: {} ({}); what it said stands above", host_.name, what, command_));
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

bool remote_server::hear() {
  // Who never stops talking is not to be heard for ever.
  constexpr int most_bytes = 4096;
  constexpr std::size_t longest_line = 4096;
  send_input();
  pollfd waiting{output_.get(), POLLIN, 0};
  for (int n = 0; port_ == 0 && n < most_bytes && poll(&waiting, 1, 0) > 0; ++n) {
    char c = 0;
    // What follows the line is for the forwarder.
    if (read(output_.get(), &c, 1) != 1) {
      const bool ended = has_ended_by(clock::now() + ending_time);
      const std::string where =
          host_.port == 0 ? std::string{} : fmt::format(" at port {}", host_.port);
      give_up(fmt::format("no server was started there{}: the command {}", where,
                          ended ? fate_text(status_) : "closed its output"));
    }
    if (c != '\n') {
      if (line_.size() < longest_line) line_ += c;
      continue;
    }
    // What the login says there may come first.
    port_ = port_in(line_);
    line_.clear();
    if (port_ != 0) forwarder_ = std::thread([from = output_.get()] { forward(from); });
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
  // Those that do not hear it share the time for that.
  const time_point deadline = clock::now() + ending_time;
  for (const auto& server : all_)
    server->end_by(deadline);
}

std::string remote_servers::urls(time_point deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    const remote_server* late = nullptr;
    for (const auto& server : all_) {
      if (server->hear()) continue;
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
  // A server that has gone shows in its answer.
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
    // One of a terminal's went to the program, too.
    const bool is_known = signal == SIGINT && got.si_code == SI_KERNEL;
    if (signal > 0 && signal != SIGCHLD && !is_known) kill(pid, signal);
  }
}

} // namespace farcall::tool
