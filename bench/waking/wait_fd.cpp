// SPDX-License-Identifier: Apache-2.0
#include "waking.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/idle_threads.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/farcall.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

void need(bool holds, const char* what) {
  if (!holds) throw failed_run(fmt::format("cannot get {}", what));
}

void add_one(const unique_fd& fd) {
  const std::uint64_t one = 1;
  need(::write(fd.get(), &one, sizeof one) == sizeof one, "a count added to an eventfd");
}

std::uint64_t take(const unique_fd& fd) {
  std::uint64_t count = 0;
  need(::read(fd.get(), &count, sizeof count) == sizeof count, "a count taken from an eventfd");
  return count;
}

/// A thread on the target's core that sleeps in read() of an eventfd, and replies by another.
class eventfd_echo {
 public:
  explicit eventfd_echo(int cpu)
      : other_("farcall-tool", [this, cpu] {
          pin_this_thread(cpu);
          for (;;) {
            (void)take(there_);
            if (ending_) return;
            add_one(back_);
          }
        }) {}
  eventfd_echo(const eventfd_echo&) = delete;
  eventfd_echo& operator=(const eventfd_echo&) = delete;
  eventfd_echo(eventfd_echo&&) = delete;
  eventfd_echo& operator=(eventfd_echo&&) = delete;
  ~eventfd_echo() {
    ending_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(there_.get(), &one, sizeof one);
    other_.join();
  }

  void round_trip() {
    add_one(there_);
    (void)take(back_);
  }

 private:
  unique_fd there_{::eventfd(0, EFD_CLOEXEC)};
  unique_fd back_{::eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> ending_{false};
  library_thread other_; // last: uses the other members
};

/// Calls once, and sleeps in poll() until the call has ended.
void call_by_descriptor(job& j, const node& target, pollfd& watched) {
  bool done = false;
  (void)async(target, offloaded::nothing).then([&](future<void> ready) {
    ready.get();
    done = true;
  });
  while (!done) {
    need(::poll(&watched, 1, -1) == 1 || errno == EINTR, "a descriptor that is readable");
    j.progress();
  }
}

} // namespace

void measure_wait_fd(std::vector<comparison>& to, core_pair cores, std::size_t turns,
                     std::size_t other_threads) {
  const scoped_pin pin{cores.host};
  job j(job_of_this_program(shm_target_on(cores.target)));
  const node target = j.targets().front();
  const int pid = pids_of(j).front();
  const idle_threads others(target, other_threads);
  eventfd_echo echo{cores.target};
  const bool is_alone = other_threads == 0;
  comparison c{fmt::format("wait_fd_{}_threads", other_threads + 1),
               is_alone ? "async, empty, caller sleeps on wait_fd"
                        : fmt::format("the same beside {} threads with lanes", other_threads),
               "eventfd there and back between two threads", wait_fd_goal};
  const auto timed = [](const auto& once) {
    const stopwatch watch;
    for (std::size_t i = 0; i < wake_ups; ++i)
      once();
    return watch.nanoseconds() / static_cast<double>(wake_ups);
  };
  pollfd watched{j.wait_fd(), POLLIN, 0};
  c.take(measure_by_turns(
      turns,
      [&] {
        sync(target, offloaded::nothing); // wakes the target, which spins from now on
        return timed([&] { call_by_descriptor(j, target, watched); });
      },
      [&] {
        wait_until_idle(pid); // a target that still spins would take the echo's core
        return timed([&] { echo.round_trip(); });
      }));
  to.push_back(std::move(c));
}

} // namespace farcall::tool
