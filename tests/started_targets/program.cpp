// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// A program that tests start in shells: "program ACTION [COUNT] [HELPER]" makes a job after the
/// action. Each process appends a byte to the file COUNT first, so tests can count the processes
/// that have started.
namespace {

namespace fc = farcall;

/// Limit that keeps a defect from filling the machine with processes. Tests fail with far fewer.
constexpr off_t max_processes = 20;

void count_process(const char* file) {
  const int fd = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct stat status{};
  if (fd < 0 || ::write(fd, "x", 1) != 1 || ::fstat(fd, &status) != 0) std::_Exit(98);
  ::close(fd);
  if (status.st_size > max_processes) std::_Exit(99);
}

void close_descriptors() {
  for (int fd = STDERR_FILENO + 1; fd < 256; ++fd)
    ::close(fd);
}

/// Runs a command in a child without the environment and the descriptors, like sudo. Returns the
/// child's exit status.
int run_without_marks(char** words) {
  const pid_t child = ::fork();
  if (child == 0) {
    close_descriptors();
    ::clearenv();
    ::execv(words[0], words);
    std::_Exit(97);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// Becomes a daemon: returns in a grandchild with a session of its own, after its parents have
/// ended.
void become_daemon() {
  if (::fork() != 0) std::_Exit(0);
  ::setsid();
  const pid_t parent = ::getpid();
  if (::fork() != 0) std::_Exit(0);
  while (::getppid() == parent)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Forks processes that make a job each. Returns 0 if all of them have got a reply.
int fork_jobs(const fc::job_options& options) {
  constexpr int processes = 3;
  for (int i = 0; i < processes; ++i) {
    if (::fork() != 0) continue;
    try {
      const fc::job job{options};
      std::_Exit(fc::sync(job.targets().front(), [](int x) { return 2 * x; }, 21) == 42 ? 0 : 1);
    } catch (const fc::error& e) {
      std::fprintf(stderr, "refused: %s\n", e.what());
      std::_Exit(3);
    }
  }
  int worst = 0;
  for (int status = 0; ::wait(&status) > 0;)
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  return worst;
}

/// Starts threads that make a job each.
void make_jobs_in_threads(const fc::job_options& options) {
  std::mutex mutex;
  const auto make = [&] {
    try {
      const fc::job job{options};
      const int reply = fc::sync(job.targets().front(), [](int x) { return 2 * x; }, 21);
      const std::lock_guard guard(mutex);
      std::printf("%d\n", reply);
    } catch (const fc::error& e) {
      std::fprintf(stderr, "refused: %s\n", e.what());
    }
  };
  std::thread first(make);
  std::thread second(make);
  first.join();
  second.join();
}

volatile std::sig_atomic_t interrupts = 0;

/// Handles signals on the host, and then keeps calling its target. Returns 0 if all calls succeed.
int outlive_signals(fc::job& job) {
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM})
    ::signal(number, [](int) { interrupts = interrupts + 1; });
  std::printf("ready %d %d\n", static_cast<int>(::getpid()),
              fc::sync(job.targets().front(), [] { return static_cast<int>(::getpid()); }));
  std::fflush(stdout);
  while (interrupts == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Signals to the group reach all of its processes during these calls.
  for (int i = 0; i < 100; ++i) {
    if (fc::sync(job.targets().front(), [](int x) { return 2 * x; }, i) != 2 * i) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::puts("the target lives");
  return 0;
}

/// Calls a handler that waits for a child process of the target.
int wait_in_target(fc::job& job) {
  auto there = fc::async(job.targets().front(), [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
      std::_Exit(97);
    }
    std::printf("%d %d\n", static_cast<int>(::getpid()), static_cast<int>(child));
    std::fflush(stdout);
    ::waitpid(child, nullptr, 0);
    return 0;
  });
  return there.get();
}

int throw_words() { throw std::runtime_error("lost words"); }

/// Makes four calls that fail. Drops three of the futures, and catches the error of the last call.
int drop_errors(fc::job& job) {
  const fc::node target = job.targets().front();
  for (int i = 0; i < 2; ++i)
    static_cast<void>(fc::async(target, throw_words));
  {
    auto waited = fc::async(target, throw_words);
    waited.wait();
  }
  try {
    fc::sync(target, throw_words);
  } catch (const fc::remote_error&) {
    std::puts("caught");
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view action = argc > 1 ? argv[1] : "";
  if (action == "without-marks") return run_without_marks(argv + 2);
  if (argc > 2 && argv[2][0] != '-') count_process(argv[2]);
  fc::job_options options;
  options.targets = action == "fork-jobs" || action == "threads" ? "shm:1" : "shm:3";
  if (action == "clear" || action == "clear-and-close") ::clearenv();
  if (action == "replace") {
    ::clearenv();
    ::setenv("PATH", "/usr/bin:/bin", 1);
  }
  if (action == "daemon" || action == "daemon-clear-and-close") become_daemon();
  if (action == "daemon-clear-and-close") ::clearenv();
  if (action == "close" || action == "clear-and-close" || action == "daemon-clear-and-close")
    close_descriptors();
  if (action == "helper" && argc > 3 && std::system(argv[3]) != 0) return 4;
  if (action == "fork-jobs") return fork_jobs(options);
  if (action == "threads") {
    make_jobs_in_threads(options);
    return 0;
  }
  if (action == "catch-nothing") {
    const fc::job job{argc, argv, options};
    return 0;
  }
  try {
    fc::job job{argc, argv, options};
    if (action == "drop-errors") return drop_errors(job);
    if (action == "outlive-signals") return outlive_signals(job);
    if (action == "wait-in-target") return wait_in_target(job);
    if (action == "nested") {
      const std::string command = std::string(argv[0]) + " nothing " + argv[2];
      return fc::sync(
          job.targets().front(), [](const std::string& c) { return std::system(c.c_str()); },
          command);
    }
    std::printf("%d\n", fc::sync(job.targets().front(), [](int x) { return 2 * x; }, 21));
  } catch (const fc::error& e) {
    std::printf("refused: %s\n", e.what());
    return 3;
  }
}
