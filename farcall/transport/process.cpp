// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/reaped_process.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio_ext.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Longest time for which the destructor of child_process waits for the end of the process that it
/// has killed.
constexpr std::chrono::milliseconds time_to_die{2000};

std::string why_not_started(const std::string& program, int reason) {
  switch (reason) {
  case ENOENT:
    if (program.starts_with("/proc/") && ::access("/proc/self", F_OK) != 0)
      return "/proc is not mounted (mount it in the sandbox: 'mount -t proc proc /proc')";
    return "there is no such file (or its interpreter is missing)";
  case EACCES:
    return "it is not executable for us (a directory, or permissions: chmod +x?)";
  case ENOEXEC:
    return "it is not a program for this machine (an emulator may run it: exec:qemu-aarch64 ./app)";
  case EAGAIN:
    return "the limit of processes is reached ('ulimit -u')";
  case EMFILE:
    return "the limit of descriptors is reached ('ulimit -n')";
  default:
    return std::strerror(reason);
  }
}

std::string describe(const process_end& end) {
  if (!end.is_signal) return "exited with status " + std::to_string(end.number);
  return "was killed by " + signal_text(end.number);
}

} // namespace

std::string signal_text(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) +
         (name != nullptr ? std::string(" (SIG") + name + ")" : std::string());
}

std::vector<char*> argument_pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int spawn(pid_t& child, const std::string& program, const std::vector<std::string>& arguments,
          const spawn_options& options) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const auto copy = [&actions](int fd, int to) {
    if (fd >= 0) ::posix_spawn_file_actions_adddup2(&actions, fd, to);
  };
  // Let the child inherit this descriptor: copying it onto itself clears its close-on-exec mark in
  // the child, but not in this process.
  copy(options.inherited, options.inherited);
  copy(options.input, STDIN_FILENO);
  copy(options.prints_to.output, STDOUT_FILENO);
  copy(options.prints_to.error, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigaddset(&signals, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK |
                                      (options.has_own_group ? POSIX_SPAWN_SETPGROUP : 0) |
                                      (options.ends_by_sigpipe ? POSIX_SPAWN_SETSIGDEF : 0)));
  const std::vector<char*> argv = argument_pointers(arguments);
  std::vector<char*> environment;
  if (options.environment != nullptr) environment = argument_pointers(*options.environment);
  const int reason = (options.searches_path ? ::posix_spawnp : ::posix_spawn)(
      &child, program.c_str(), &actions, &attributes, argv.data(),
      options.environment != nullptr ? environment.data() : environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return reason;
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)),
      ended_(std::move(other.ended_)), exit_code_(other.exit_code_), is_reaped_(other.is_reaped_),
      start_(std::move(other.start_)) {}

child_process& child_process::operator=(child_process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(ended_, other.ended_);
  std::swap(exit_code_, other.exit_code_);
  std::swap(is_reaped_, other.is_reaped_);
  std::swap(start_, other.start_);
  return *this;
}

child_process::~child_process() {
  if (pid_ == 0 || is_reaped_) return;
  kill();
  try {
    if (wait(clock::now() + time_to_die)) {
      reap();
    } else {
      log::warning("process " + std::to_string(pid_) + " was killed and has not ended " +
                   std::to_string(time_to_die.count()) +
                   " ms later: the system holds it, as in a "
                   "file system that does not respond; it is left behind");
    }
  } catch (const std::exception&) {
    // Leave the process behind without a warning, because there is no memory for the warning's
    // text.
  }
}

child_process child_process::start(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const std::string& variable, const std::string& value,
                                   int inherited, const std::vector<std::string>& environment,
                                   const child_output& prints_to, target_program runs) {
  std::vector<std::string> entries = environment;
  std::erase_if(entries, [&](const std::string& e) { return e.starts_with(variable + "="); });
  entries.push_back(variable + "=" + value);
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) {
    const std::string why = reason_text(errno);
    throw start_failed("the target program \"" + program + "\" cannot be started: /dev/null, its " +
                       "standard input, cannot be opened: " + why);
  }
  child_process child;
  child.start_ = start_record::open();
  const int reason = [&] {
    const limit_scope marked(runs);
    // Give the child a process group of its own. Signals from the terminal, or to the host's group,
    // then reach the host only. The target still ends, because its host ends.
    return spawn(child.pid_, program, arguments,
                 {.input = nothing.get(),
                  .prints_to = prints_to,
                  .inherited = inherited,
                  .environment = &entries});
  }();
  child.start_.name(reason == 0 ? child.pid_ : start_record::no_child);
  if (reason != 0) {
    child.pid_ = 0;
    throw start_failed("the target program \"" + program +
                       "\" cannot be started: " + why_not_started(program, reason));
  }
#ifdef SYS_pidfd_open
  child.pidfd_ = unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  child.pidfd_.close_on_fork();
#endif
  return child;
}

std::optional<std::string> child_process::wait(time_point deadline) {
  for (;;) {
    if (ended_ || pid_ == 0) return ended_;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      is_reaped_ = true;
      if (const auto end = end_of_reaped(pidfd_.get())) return note_end(*end);
      ended_ = drops_exit_statuses()
                   ? "ended; the system has dropped its exit status, because this process ignores "
                     "SIGCHLD (set SIGCHLD to SIG_DFL before the job)"
                   : "ended (somebody else took its exit status)";
      return ended_;
    }
    if (info.si_pid != 0) return note_end({info.si_code != CLD_EXITED, info.si_status});
    if (clock::now() >= deadline) return std::nullopt;
    if (pidfd_) {
      pollfd waiting{pidfd_.get(), POLLIN, 0};
      ::poll(&waiting, 1, poll_timeout(deadline));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

const std::optional<std::string>& child_process::note_end(const process_end& end) {
  ended_ = describe(end);
  if (const std::string why = text_of(start_.lost()); !why.empty()) *ended_ += ": " + why;
  exit_code_ = end.is_signal ? 128 + end.number : end.number;
  return ended_;
}

void child_process::reap() noexcept {
  if (!ended_) return;
  pidfd_.reset();
  if (is_reaped_) return;
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  is_reaped_ = true;
}

void child_process::kill() noexcept {
  if (pid_ == 0 || ended_) return;
#ifdef SYS_pidfd_send_signal
  // Send the signal by pidfd, because the process number may already belong to another process.
  // This happens if this process ignores SIGCHLD, so that the system reaps its children.
  if (pidfd_ && (::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) == 0 ||
                 errno == ESRCH)) {
    return;
  }
#endif
  ::kill(pid_, SIGKILL);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  // Test for null, because clearenv() sets `environ` to null.
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

unique_fd process_behind(int socket) noexcept {
  ucred who{};
  socklen_t bytes = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.pid <= 0) return {};
#ifdef SYS_pidfd_open
  return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
#else
  return {};
#endif
}

std::string own_program() {
  std::error_code unreadable;
  const auto path = std::filesystem::read_symlink(running_program, unreadable);
  return unreadable ? running_program : path.string();
}

std::string executable_of_this() {
  const std::string path = own_program();
  struct stat named{};
  struct stat running{};
  // Compare the file that the link /proc/self/exe leads to with the file that the link's text
  // names. If the two differ, an emulator runs the program: it shows the program's path as the
  // text, but the link leads to the emulator itself. If the text names no file, the program's file
  // was replaced, and the link still leads to the running program.
  if (::stat(path.c_str(), &named) != 0 || ::stat(running_program, &running) != 0 ||
      (named.st_dev == running.st_dev && named.st_ino == running.st_ino)) {
    return running_program;
  }
  return path;
}

void open_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Open /dev/null under this closed number: open() returns the lowest free number, which is
    // `fd`.
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)::open("/dev/null", O_RDWR);
  }
}

void print_lines_into_pipes() noexcept {
  struct stat status{};
  if (::fstat(STDOUT_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode)) return;
  // Leave the stream as it is if the program has made it unbuffered; its buffer then has one byte.
  if (::__fbufsize(stdout) == 1) return;
  (void)std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

std::string find_command(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = environment("PATH").value_or("/usr/bin:/bin");
  for (const std::string& folder : split(path, ':')) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat status{};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  throw start_failed("the target's command \"" + name +
                     "\" cannot be started: it is in no folder " + "of PATH (" + path +
                     "); install it, or write its path");
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');)
    arguments.push_back(argument);
  if (arguments.empty()) arguments.emplace_back("farcall-target");
  return arguments;
}

} // namespace farcall
