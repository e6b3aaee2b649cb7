// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"
#include "process_use.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <farcall/farcall.hpp>
#include <farcall/memory/available.hpp>
#include <tools/common/outcome.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

// ---- what targets run ---------------------------------------------------------------------------

double heap_of_target() { return heap_bytes(); }

/// Returns the target `steps` places after this one, in a circle of all targets without the host.
node_id behind(node_id self, std::uint32_t steps, std::uint32_t targets) {
  return 1 + (self - 1 + steps) % targets;
}

/// Gets introduced to `count` other targets, without calling them.
void meet_some(std::uint32_t first, std::uint32_t count, std::uint32_t targets) {
  const node_id self = this_node().id();
  for (std::uint32_t step = first; step < first + count; ++step)
    (void)node_at(behind(self, step, targets)).description();
}

/// Calls `count` other targets once each.
void call_some(std::uint32_t first, std::uint32_t count, std::uint32_t targets) {
  const node_id self = this_node().id();
  for (std::uint32_t step = first; step < first + count; ++step)
    sync(node_at(behind(self, step, targets)), offloaded::nothing);
}

// ---- what the host measures ---------------------------------------------------------------------

/// Number of others that each target contacts before the host checks the time again.
constexpr std::uint32_t others_at_once = 8;
/// Upper bound of a lane's memory.
constexpr std::uint64_t most_of_lane = 256 * 1024;

void say(const std::string& what) { print(fmt::format("{}{}\n", job_line, what)); }
void say_step(const std::string& what) { say("step " + what); }
void say_figure(const std::string& name, double value) {
  say(fmt::format("figure {} {}", name, value));
}

void say_use(const std::string& of, const process_use& now, const process_use& before = {}) {
  say_figure(of + "_private_kib", now.private_kib - before.private_kib);
  say_figure(of + "_shared_kib", now.shared_kib - before.shared_kib);
  say_figure(of + "_page_tables_kib", now.page_tables_kib - before.page_tables_kib);
  say_figure(of + "_descriptors", now.descriptors - before.descriptors);
  say_figure(of + "_threads", now.threads - before.threads);
}

template <class... Arguments>
void run_on_all(const job& j, void (*function)(Arguments...), Arguments... arguments) {
  std::vector<future<void>> all;
  all.reserve(j.targets().size());
  for (const node& target : j.targets())
    all.push_back(async(target, function, arguments...));
  for (future<void>& one : all)
    one.get();
}

double average_heap(const job& j) {
  double sum = 0;
  for (const node& target : j.targets())
    sum += sync(target, heap_of_target);
  return sum / static_cast<double>(j.targets().size());
}

void measure_idling(const std::vector<int>& pids, bool is_quick) {
  // Let spinning threads go to sleep first.
  std::this_thread::sleep_for(std::chrono::seconds{1});
  const double targets_before = processor_time_of_all(pids);
  const double host_before = processor_time_ns(getpid());
  const stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds{is_quick ? 500 : 2000});
  // Read the host's time first: reading the targets' times takes some itself.
  const double host = processor_time_ns(getpid()) - host_before;
  const double targets = processor_time_of_all(pids) - targets_before;
  const double seconds = watch.nanoseconds() / 1e9;
  say_figure("idle_targets_ms_per_s", targets / 1e6 / seconds);
  say_figure("idle_host_ms_per_s", host / 1e6 / seconds);
}

/// CPU time of the host and of all its targets since construction.
class processor_times {
 public:
  explicit processor_times(const std::vector<int>& pids) : pids_(&pids) {}
  void say(const std::string& what) const {
    say_figure(what + "_host_cpu_ms", (processor_time_ns(getpid()) - host_) / 1e6);
    say_figure(what + "_targets_cpu_ms", (processor_time_of_all(*pids_) - targets_) / 1e6);
  }

 private:
  const std::vector<int>* pids_;
  double host_ = processor_time_ns(getpid());
  double targets_ = processor_time_of_all(*pids_);
};

/// First contact of all targets: calls `function` on each for 1 to `others` others. Returns how
/// many others were contacted within the limits of time and memory.
std::uint32_t contact(const job& j, const std::string& what,
                      void (*function)(std::uint32_t, std::uint32_t, std::uint32_t),
                      std::uint32_t others, double seconds, bool takes_lanes) {
  const auto targets = static_cast<std::uint32_t>(j.targets().size());
  const std::uint64_t available_before = available_memory().value_or(0);
  const stopwatch watch;
  std::uint32_t done = 0;
  while (done < others && watch.nanoseconds() < seconds * 1e9) {
    say_step(fmt::format("{}: {} of {} others each", what, done, others));
    const std::uint32_t count = std::min(others - done, others_at_once);
    if (takes_lanes) {
      const std::uint64_t needed = std::uint64_t{count} * targets * most_of_lane;
      const std::uint64_t available = available_memory().value_or(~std::uint64_t{0});
      // Leave half of the available memory to other programs.
      if (available < needed + available_before / 2) {
        say("limit memory");
        break;
      }
    }
    run_on_all(j, function, done + 1, count, targets);
    done += count;
  }
  if (done < others && watch.nanoseconds() >= seconds * 1e9) say("limit time");
  say_figure(what + "_ms", watch.nanoseconds() / 1e6);
  return done;
}

void measure_contact(const job& j, const std::vector<int>& pids, double seconds) {
  const auto targets = static_cast<std::uint32_t>(j.targets().size());
  const double n = targets;
  double heap_before = average_heap(j);
  process_use before = average_use(pids);
  // Introductions are mutual, so half of the others suffice.
  const std::uint32_t half = targets / 2;
  const processor_times meeting(pids);
  const std::uint32_t met = contact(j, "meeting", meet_some, half, seconds, false);
  meeting.say("meeting");
  const double known = met == half ? n - 1 : 2.0 * met;
  double heap = average_heap(j);
  process_use now = average_use(pids);
  say_figure("meeting_pairs", n * known / 2);
  if (known > 0) {
    say_figure("known_heap_bytes", (heap - heap_before) / known);
    say_figure("known_page_tables_bytes",
               1024 * (now.page_tables_kib - before.page_tables_kib) / known);
    say_figure("known_shared_bytes", 1024 * (now.shared_kib - before.shared_kib) / known);
  }
  heap_before = heap;
  before = now;
  const processor_times calling(pids);
  const std::uint32_t called = contact(j, "calling", call_some, targets - 1, seconds, true);
  calling.say("calling");
  say_figure("calling_lanes", n * called);
  if (called == 0) return;
  heap = average_heap(j);
  now = average_use(pids);
  say_figure("lane_heap_bytes", (heap - heap_before) / called);
  say_figure("lane_memory_kib", (now.private_kib - before.private_kib + now.shared_kib -
                                 before.shared_kib + now.page_tables_kib - before.page_tables_kib) /
                                    called);
}

struct job_request {
  std::size_t targets = 0;
  bool is_launched = false;
  bool is_start_only = false;
  bool is_quick = false;
  double contact_seconds = 0;
};

job_options options_for(const job_request& asked) {
  job_options o = job_of_this_program("");
  if (asked.is_launched) {
    ::unsetenv("FARCALL_TARGETS"); // use all of the launcher's processes
  } else {
    o.targets = fmt::format("shm:{}", asked.targets);
    o.process_manager = "none";
  }
  // Many processes share few processors.
  o.start_timeout = std::chrono::seconds{60};
  o.stop_timeout = std::chrono::seconds{30};
  return o;
}

void measure_job(const job_request& asked) {
  const job_options options = options_for(asked);
  const process_use before = use_of(getpid());
  const double heap_before = heap_bytes();
  say_step("start");
  const double host_cpu_before = processor_time_ns(getpid());
  stopwatch stopping;
  {
    const stopwatch starting;
    const job j{options};
    const double constructed = starting.nanoseconds();
    say_figure("constructor_ms", constructed / 1e6);
    const double host_cpu = processor_time_ns(getpid()) - host_cpu_before;
    const std::vector<int> pids = pids_of(j);
    say_figure("start_host_cpu_ms", host_cpu / 1e6);
    say_figure("start_targets_cpu_ms", processor_time_of_all(pids) / 1e6);
    if (j.targets().size() != asked.targets) {
      throw failed_run(
          fmt::format("the job has {} targets instead of {}", j.targets().size(), asked.targets));
    }
    if (!asked.is_start_only) {
      say_step("memory before use");
      say_use("host_unused", use_of(getpid()), before);
      say_figure("host_unused_heap_bytes", heap_bytes() - heap_before);
      say_use("target_unused", average_use(pids));
    }
    const stopwatch calling;
    run_on_all(j, offloaded::nothing);
    say_figure("first_results_ms", (constructed + calling.nanoseconds()) / 1e6);
    if (!asked.is_start_only) {
      say_step("memory in use");
      say_use("host_used", use_of(getpid()), before);
      say_figure("host_used_heap_bytes", heap_bytes() - heap_before);
      say_figure("target_heap_bytes", average_heap(j));
      say_use("target_used", average_use(pids));
      say_step("idling");
      measure_idling(pids, asked.is_quick);
      if (asked.contact_seconds > 0 && asked.targets > 1) {
        measure_contact(j, pids, asked.contact_seconds);
      }
    }
    say_step("end");
    stopping.restart();
  }
  say_figure("end_ms", stopping.nanoseconds() / 1e6);
}

} // namespace

int measure_scale_job(int argc, char** argv) {
  try {
    if (argc != 6) throw usage_problem("this is internal; use 'farcall bench scale'");
    job_request asked;
    asked.targets = std::stoul(argv[2]);
    asked.is_launched = std::string_view(argv[3]) == "launched";
    asked.is_start_only = std::string_view(argv[4]) == "start";
    asked.is_quick = std::string_view(argv[4]) == "quick";
    asked.contact_seconds = std::stod(argv[5]);
    measure_job(asked);
    say("done");
    return 0;
  } catch (const std::exception& e) {
    std::string why = e.what();
    std::replace(why.begin(), why.end(), '\n', ' ');
    say("failed " + why);
    return 1;
  }
}

} // namespace farcall::tool
