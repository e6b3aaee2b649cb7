// How processes end that have workers on a GPU: killed, and with a handler that never ends.

#include "kill.hpp"
#include "session.hpp"

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
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::bench {
namespace {

constexpr int timeout_ms = 30'000;

/// This program again, which says one line when it has made a call.
class process {
 public:
  process(const char* role, const std::string& target) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
    from_ = ends[0];
    posix_spawn_file_actions_t files;
    (void)::posix_spawn_file_actions_init(&files);
    (void)::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    std::array<std::string, 4> words{"farcall_cuda_bench", role, "--targets", target};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(),
                                   words[3].data(), nullptr};
    const int status =
        ::posix_spawn(&pid_, "/proc/self/exe", &files, nullptr, arguments.data(), environ);
    (void)::posix_spawn_file_actions_destroy(&files);
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

  /// Returns when it has made its call.
  void await_call() const {
    pollfd end{from_, POLLIN, 0};
    char said = 0;
    if (::poll(&end, 1, timeout_ms) != 1 || ::read(from_, &said, 1) != 1 || said != '+')
      throw std::runtime_error("a process that was started to call the device has not done so");
  }
  /// Returns when the system has taken it away.
  void kill_and_wait() {
    (void)::kill(pid_, SIGKILL);
    wait();
  }
  void wait() {
    (void)::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// False when it has not ended by itself. Throws when it has ended with an error.
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

/// A process may take seconds to find its GPU.
constexpr std::chrono::seconds longest_kills{15};

/// Of what a process that is started does.
constexpr std::chrono::milliseconds patience{timeout_ms + 10'000};

/// A GPU that still runs a handler must not keep the process that has given it up.
constexpr std::chrono::seconds longest_end{5};

double call_from_a_new_process(const std::string& target) {
  const auto begun = gpu::stopwatch_clock::now();
  process p("--once", target);
  p.await_call();
  const double ns = gpu::ns_between(begun, gpu::stopwatch_clock::now());
  p.wait();
  return ns;
}

/// Of a process that says when its end begins. False when it did not end.
bool time_end(session& s, const std::string& target, const char* role, const std::string& what) {
  s.watch.expect(what, patience);
  process p(role, target);
  p.await_call();
  const auto begun = gpu::stopwatch_clock::now();
  const bool has_ended = p.ends_within(longest_end);
  if (!has_ended) p.kill_and_wait();
  const double ns = gpu::ns_between(begun, gpu::stopwatch_clock::now());
  s.out.add_duration(
      what + (has_ended ? ", to process gone" : ", killed after 5 s, to process gone"), {ns});
  s.watch.expect("a new process that makes a call", patience);
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
  const auto end = gpu::stopwatch_clock::now() + longest_kills;
  for (std::size_t i = 0; i < s.asked.choose(8, 3) && gpu::stopwatch_clock::now() < end; ++i) {
    s.watch.expect("a new process that makes a call, beside one that is killed", 2 * patience);
    undisturbed.push_back(call_from_a_new_process(target));
    process victim("--hold", target);
    victim.await_call();
    const auto begun = gpu::stopwatch_clock::now();
    victim.kill_and_wait();
    gone.push_back(gpu::ns_between(begun, gpu::stopwatch_clock::now()));
    next.push_back(call_from_a_new_process(target));
  }
  const row& usual =
      s.out.add_duration("new process to its first answer, device free", std::move(undisturbed));
  row after{
      .what = "the same, right after the kill", .unit = "ns", .value = summarize(std::move(next))};
  after.ratio = after.value.p50 / usual.value.p50;
  after.against = usual.what;
  s.out.add_duration("kill -9 with resident workers to process gone", std::move(gone));
  s.out.add(std::move(after));
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
