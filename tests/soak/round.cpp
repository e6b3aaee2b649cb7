// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/soak.hpp"

#include <csignal>
#include <filesystem>
#include <thread>

#include <unistd.h>

namespace soak {
namespace {

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

/// True if `e` reports only that a killed target has gone. A target that called the dead one
/// reports that as an exception of its handler.
bool tells_of_a_death(const fc::error& e) {
  if (dynamic_cast<const fc::node_failed*>(&e) != nullptr) return true;
  const auto* remote = dynamic_cast<const fc::remote_error*>(&e);
  return remote != nullptr && (remote->type_name() == "farcall::node_failed" ||
                               remote->text().find("farcall::node_failed") != std::string::npos);
}

} // namespace

void run_round(generator& random, std::chrono::steady_clock::time_point end, tally& t) {
  const std::size_t descriptors = open_descriptors();
  {
    fc::job_options options;
    const std::uint64_t targets = 1 + random() % 4;
    options.targets =
        "shm:" + std::to_string(targets) + "?workers=" + std::to_string(1 + random() % 3);
    options.lane_bytes = std::uint32_t{1} << (12 + random() % 8);
    if (random() % 4 == 0) options.waiting.spin = std::chrono::nanoseconds(0);
    const fc::job j(options);
    std::vector<pid_t> pids;
    for (const fc::node& n : j.targets())
      pids.push_back(fc::sync(n, ::getpid));

    std::atomic<bool> some_died{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, own = generator(random())]() mutable {
        int failures = 0;
        while (std::chrono::steady_clock::now() < end && failures < 50) {
          try {
            run_operation(j, own, t);
          } catch (const fc::error& e) {
            if (!some_died || !tells_of_a_death(e)) {
              t.wrong(std::string("unexpected error: ") + e.what());
              return;
            }
            t.failed_as_expected();
            ++failures;
          } catch (const std::exception& e) {
            t.wrong(std::string("unexpected exception: ") + e.what());
            return;
          }
        }
      });
    }
    // In every third round one or more targets die.
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
      some_died = true;
      const std::size_t deaths = 1 + random() % targets;
      for (std::size_t i = 0; i < deaths; ++i) {
        ::kill(pids[i], SIGKILL);
        t.killed();
      }
    }
    for (auto& thread : threads)
      thread.join();
  }
  if (open_descriptors() != descriptors) t.wrong("descriptors are left over after a job");
  t.round_done();
}

} // namespace soak
