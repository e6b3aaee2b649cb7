// SPDX-License-Identifier: Apache-2.0

// Ends of processes with workers on a GPU: killed, and with a handler that never ends.

#include "kill.hpp"
#include "session.hpp"

#include <farcall/transport/process.hpp>
#include <tools/common/pinning.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::bench {
namespace {

constexpr int timeout_ms = 30'000;

/// This program, started again; prints a character when it has made a call.
class process {
 public:
  process(const char* role, const std::string& target) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
    from_ = ends[0];
    const int status =
        spawn(pid_, running_program, {"farcall_cuda_bench", role, "--targets", target},
              {.prints_to = {.output = ends[1]}, .has_own_group = false});
    (void)::close(ends[1]);
    if (status != 0) {
      (void)::close(from_);
      throw std::system_error(status, std::generic_category(), "starting this program again");
    }
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process() {
    if (pid_ > 0) {
      (void)::kill(pid_, SIGKILL);
      (void)::waitpid(pid_, nullptr, 0);
    }
    (void)::close(from_);
  }

  /// Waits until the process has made its call.
  void await_call() const {
    pollfd end{from_, POLLIN, 0};
    char said = 0;
    if (::poll(&end, 1, timeout_ms) != 1 || ::read(from_, &said, 1) != 1 || said != '+')
      throw std::runtime_error("a process that was started to call the device has not done so");
  }
  /// Kills the process, and waits until the system has removed it.
  void kill_and_wait() {
    (void)::kill(pid_, SIGKILL);
    wait();
  }
  void wait() {
    (void)::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// Returns false if the process has not ended by itself. Throws if it has ended with an error.
  [[nodiscard]] bool ends_within(std::chrono::milliseconds time) {
    const auto deadline = gpu::stopwatch_clock::now() + time;
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0) {
      if (gpu::stopwatch_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    pid_ = -1;
    if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      throw std::runtime_error("the process has ended with an error");
    return true;
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

/// Limit of all kills: a process may take seconds to find its GPU.
constexpr std::chrono::seconds max_kills{15};

/// Timeout of a started process.
constexpr std::chrono::milliseconds process_timeout{timeout_ms + 10'000};

/// Timeout of a process that has given up a GPU on which a handler still runs.
constexpr std::chrono::seconds max_end{5};

double call_from_a_new_process(const std::string& target) {
  const auto begun = gpu::stopwatch_clock::now();
  process p("--once", target);
  p.await_call();
  const double ns = gpu::ns_between(begun, gpu::stopwatch_clock::now());
  p.wait();
  return ns;
}

/// Measures the time from the announced end of a process to its real end. Returns false if it did
/// not end.
bool time_end(session& s, const std::string& target, const char* role, const std::string& what) {
  s.watch.expect(what, process_timeout);
  process p(role, target);
  p.await_call();
  const auto begun = gpu::stopwatch_clock::now();
  const bool has_ended = p.ends_within(max_end);
  if (!has_ended) p.kill_and_wait();
  const double ns = gpu::ns_between(begun, gpu::stopwatch_clock::now());
  s.out.add_duration(
      what + (has_ended ? ", to process gone" : ", killed after 5 s, to process gone"), {ns});
  s.watch.expect("a new process that makes a call", process_timeout);
  s.out.add_duration("new process to its first answer, after that",
                     {call_from_a_new_process(target)});
  return has_ended;
}

} // namespace

void measure_kill(session& s) {
  s.out.begin("kill");
  const tool::scoped_pin processes(s.cpus);
  const std::string target = with_option(s.asked.target, "workers", s.is_gpu() ? 8 : 1);
  std::vector<double> undisturbed;
  std::vector<double> gone;
  std::vector<double> next;
  const auto end = gpu::stopwatch_clock::now() + max_kills;
  for (std::size_t i = 0; i < s.asked.choose(8, 3) && gpu::stopwatch_clock::now() < end; ++i) {
    s.watch.expect("a new process that makes a call, beside one that is killed",
                   2 * process_timeout);
    undisturbed.push_back(call_from_a_new_process(target));
    process victim("--hold", target);
    victim.await_call();
    const auto begun = gpu::stopwatch_clock::now();
    victim.kill_and_wait();
    gone.push_back(gpu::ns_between(begun, gpu::stopwatch_clock::now()));
    next.push_back(call_from_a_new_process(target));
  }
  const std::string usual = "new process to its first answer, device free";
  s.out.add_duration(usual, std::move(undisturbed));
  s.out.add_duration("kill -9 with resident workers to process gone", std::move(gone));
  s.out.add({.what = "the same, right after the kill",
             .unit = "ns",
             .value = summarize(std::move(next)),
             .against = usual});
}

void measure_give_up(session& s) {
  s.out.begin("give-up");
  const tool::scoped_pin processes(s.cpus);
  const std::string target = with_option(s.asked.target, "workers", 1);
  const bool ends_given_up =
      time_end(s, target, "--spin", "give_up beside a handler that never ends");
  const bool ends_pinned = time_end(s, target, "--pin", "exit() with a pinned worker");
  if (!ends_given_up || !ends_pinned) throw std::runtime_error("a process does not end");
}

} // namespace farcall::bench
