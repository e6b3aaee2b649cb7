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

/// How long the end of a child_process waits for a process that it has killed.
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

class spawn_actions {
 public:
  spawn_actions() { ::posix_spawn_file_actions_init(&actions_); }
  spawn_actions(const spawn_actions&) = delete;
  spawn_actions& operator=(const spawn_actions&) = delete;
  ~spawn_actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  // Copying a descriptor onto itself clears its close-on-exec mark in the child only.
  void keep(int fd) { copy(fd, fd); }
  void copy(int fd, int to) { ::posix_spawn_file_actions_adddup2(&actions_, fd, to); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class spawn_attributes {
 public:
  spawn_attributes() {
    ::posix_spawnattr_init(&attributes_);
    // A target starts with no signal blocked, whatever the calling thread has blocked.
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    // Signals of the terminal, and those to the host's process group, are for the host, whose end
    // ends the target.
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
  ~spawn_attributes() { ::posix_spawnattr_destroy(&attributes_); }
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

} // namespace

std::string signal_text(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) +
         (name != nullptr ? std::string(" (SIG") + name + ")" : std::string());
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
                   "file system that does not answer; it is left behind");
    }
  } catch (const std::exception&) {
    // It is left behind, too: there is no memory for words.
  }
}

child_process child_process::start(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const std::string& variable, const std::string& value,
                                   int inherited, const std::vector<std::string>& environment,
                                   const child_output& prints_to, target_program runs) {
  const std::string assignment = variable + "=" + value;
  std::vector<char*> entries;
  for (const std::string& entry : environment) {
    if (!entry.starts_with(variable + "=")) entries.push_back(const_cast<char*>(entry.c_str()));
  }
  entries.push_back(const_cast<char*>(assignment.c_str()));
  entries.push_back(nullptr);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& a : arguments)
    argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);

  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) {
    const std::string why = reason_text(errno);
    throw start_failed("the target program \"" + program + "\" cannot be started: /dev/null, its " +
                       "standard input, cannot be opened: " + why);
  }
  spawn_actions actions;
  actions.keep(inherited);
  actions.copy(nothing.get(), STDIN_FILENO);
  if (prints_to.output >= 0) actions.copy(prints_to.output, STDOUT_FILENO);
  if (prints_to.error >= 0) actions.copy(prints_to.error, STDERR_FILENO);
  spawn_attributes attributes;
  child_process child;
  child.start_ = start_record::open();
  const int reason = [&] {
    const limit_scope marked(runs);
    return ::posix_spawn(&child.pid_, program.c_str(), actions.get(), attributes.get(), argv.data(),
                         entries.data());
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
  // The number may be another process's already, if this process ignores SIGCHLD.
  if (pidfd_ && (::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) == 0 ||
                 errno == ESRCH)) {
    return;
  }
#endif
  ::kill(pid_, SIGKILL);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  // clearenv() leaves no table.
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
  // An emulator changes what the link reads, and is itself the file behind the link. A file that
  // was replaced has another path.
  if (::stat(path.c_str(), &named) != 0 || ::stat(running_program, &running) != 0 ||
      (named.st_dev == running.st_dev && named.st_ino == running.st_ino)) {
    return running_program;
  }
  return path;
}

void open_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free is this one.
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)::open("/dev/null", O_RDWR);
  }
}

void print_lines_into_pipes() noexcept {
  struct stat status{};
  if (::fstat(STDOUT_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode)) return;
  // One that the program has made unbuffered has a buffer of a byte.
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
