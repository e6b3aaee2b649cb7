// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"

#include "activity.hpp"
#include "perf_session.hpp"
#include "process_sampler.hpp"
#include "processes.hpp"
#include "ptrace_session.hpp"
#include "remote_samplers.hpp"
#include "started_program.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/clock.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

std::string joined_words(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words)
    all += (all.empty() ? "" : " ") + word;
  return all;
}

/// Data that is collected during the sampling, and the time of its start.
struct session_parts {
  recording into;
  modules files;
  std::uint64_t start = record_time();
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::optional<remote_samplers> elsewhere;
};

void tell_progress(std::size_t done, std::size_t all) {
  constexpr std::size_t many = 20'000;
  if (all < many || isatty(STDERR_FILENO) == 0) return;
  if (done < all) {
    fmt::print(stderr, "\rfarcall prof: looking up {} of {} places in the code ", done, all);
  } else {
    fmt::print(stderr, "\r\033[K");
  }
  std::fflush(stderr);
}

profile profile_of(session_parts& parts, const sampler_options& options, std::string command) {
  profile made;
  made.command = std::move(command);
  made.started = parts.started;
  made.duration = std::chrono::nanoseconds(record_time() - parts.start);
  made.samples_per_second = options.samples_per_second;
  const recorded_samples recorded = parts.into.finish();
  if (recorded.was_throttled) {
    fmt::print(stderr, "farcall prof: the kernel has left out samples to save time; take a lower "
                       "rate (-s), or raise kernel.perf_event_max_sample_rate\n");
  }
  // Stop the threads of the remote samplers before names are looked up. A lookup forks this
  // process, which is safe only without other threads.
  if (parts.elsewhere) parts.elsewhere->stop();
  add_samples(recorded, symbols_of(parts.files), parts.start, tell_progress, made);
  if (parts.elsewhere) {
    parts.elsewhere->add_to(made, parts.start, tell_progress);
    std::ranges::stable_sort(made.samples, {}, &profile_sample::at);
  }
  classify_samples(made);
  return made;
}

/// Waits until one of several descriptors is readable, or until a deadline.
class readiness {
 public:
  readiness(const std::vector<int>& rings, int signals, int end) {
    polled_.push_back({signals, POLLIN, 0});
    polled_.push_back({end, POLLIN, 0});
    for (const int ring : rings)
      polled_.push_back({ring, POLLIN, 0});
  }
  void wait(time_point deadline) { wait_for(polled_, deadline); }
  [[nodiscard]] bool has_signal() const { return polled_[0].revents != 0; }
  [[nodiscard]] bool has_end() const { return polled_[1].revents != 0; }

 private:
  std::vector<pollfd> polled_;
};

void look_elsewhere(pid_t root, const sampler_options& options, session_parts& parts) {
  try {
    parts.elsewhere.emplace(root, options);
  } catch (const std::system_error& e) {
    fmt::print(stderr, "farcall prof: targets on other machines are not sampled: {}\n", e.what());
  }
}

void tell_of_ptrace(const sampler_options& options, const std::string& reason) {
  fmt::print(stderr,
             "farcall prof: {}; sampling with ptrace, which slows the program down more{}\n",
             reason, options.stacks == call_graph::dwarf ? ", and with frame pointers" : "");
}

int trace_program(started_program& child, const taken_signals& signals,
                  const sampler_options& options, session_parts& parts, const std::string& reason) {
  tell_of_ptrace(options, reason);
  ptrace_session session(options.samples_per_second, options.stacks != call_graph::none, parts.into,
                         parts.files);
  try {
    session.add_from_exec(child.pid());
  } catch (const ptrace_refused& e) {
    throw failed_run(advice_on_rights(reason, e.what()));
  }
  child.begin();
  child.check_exec();
  look_elsewhere(child.pid(), options, parts);
  readiness ready({}, signals.readable(), child.ended());
  while (!session.status_of(child.pid())) {
    ready.wait(session.next_tick());
    if (ready.has_signal()) {
      const asked what = signals.read();
      if (what.signal != 0) kill(child.pid(), what.signal);
    }
    session.work();
  }
  session.finish();
  const int status = session.status_of(child.pid()).value_or(0);
  child.note_end();
  return shell_status_of(status);
}

void check_may_use_perf(const sampler_options& options) {
  if (options.by_ptrace) throw perf_refused("perf_event_open is not wanted");
}

/// Samples a program with perf_event_open. If the kernel refuses this, throws perf_refused, and the
/// program has not begun.
int perf_program(started_program& child, const taken_signals& signals,
                 const sampler_options& options, session_parts& parts) {
  check_may_use_perf(options);
  perf_session session(options.samples_per_second, options.stacks, parts.into, parts.files);
  session.add_from_exec(child.pid());
  child.begin();
  child.check_exec();
  look_elsewhere(child.pid(), options, parts);
  readiness ready(session.readable(), signals.readable(), child.ended());
  while (!ready.has_end()) {
    ready.wait(clock::now() + ring_reading_interval);
    if (ready.has_signal()) {
      const asked what = signals.read();
      if (what.signal != 0) kill(child.pid(), what.signal);
    }
    session.read();
  }
  session.finish();
  return child.wait();
}

/// If the process is a host that a launcher has started, adds the other nodes that the same
/// launcher has started on this machine.
void add_nodes(process_sampler& sampler, pid_t process) {
  const process_part part = part_of(process);
  // With this setting, each process that the launcher has started is the host of a separate job, so
  // there are no other nodes.
  if (variable_of(process, "FARCALL_PROCESS_MANAGER") == "none") return;
  if (part.rank != host_id || part.is_target) return;
  const std::vector<pid_t> own = with_descendants(process);
  std::size_t added = 0;
  std::vector<pid_t> known(own);
  for (const pid_t other : launched_with(process)) {
    if (std::ranges::find(known, other) != known.end()) continue;
    try {
      if (!sampler.add(other)) continue;
      ++added;
      const std::vector<pid_t> with = with_descendants(other);
      known.insert(known.end(), with.begin(), with.end());
    } catch (const failed_run& e) {
      fmt::print(stderr,
                 "farcall prof: process {}, started by the same launcher, is not sampled: {}\n",
                 other, e.what());
    }
  }
  if (added == 0) {
    fmt::print(stderr,
               "farcall prof: process {} is the host of a launched job, none of whose other nodes "
               "runs on this machine and is sampled\n",
               process);
  } else {
    fmt::print(
        stderr,
        "farcall prof: process {} is the host of a launched job, of which {} other nodes run "
        "on this machine and are sampled; those on other machines are not\n",
        process, added);
  }
}

bool has_ended(pid_t process) {
  const char state = state_of(process, process).letter;
  return state == 0 || state == 'Z' || state == 'X';
}

/// Time for targets to end after their host, for instance if a signal has ended the host.
constexpr std::chrono::milliseconds end_time{300};

/// Prints the descendants that still run after the program's end, such as daemons.
void tell_of_left_processes(const recorded_samples& recorded) {
  std::vector<pid_t> left;
  for (const recorded_samples::program_run& run : recorded.runs)
    if (std::ranges::find(left, run.process) == left.end()) left.push_back(run.process);
  const time_point until = clock::now() + end_time;
  std::erase_if(left, has_ended);
  while (!left.empty() && clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::erase_if(left, has_ended);
  }
  for (const pid_t process : left) {
    fmt::print(stderr,
               "farcall prof: the program has ended and left process {} ({}) running, which is no "
               "longer sampled: farcall prof --pid {}\n",
               process, valid_text(name_of(process, process)), process);
  }
}

/// Samples a running process until it ends, the deadline passes, or a signal arrives.
void sample_running(pid_t process, const taken_signals& signals, int end, time_point deadline,
                    const sampler_options& options, session_parts& parts) {
  process_sampler sampler(options, parts.into, parts.files);
  try {
    if (!sampler.add(process)) throw failed_run("the process has ended");
  } catch (const failed_run& e) {
    throw failed_run(fmt::format("--pid {}: {}", process, e.what()));
  }
  add_nodes(sampler, process);
  look_elsewhere(process, options, parts);
  if (!sampler.refusal().empty()) tell_of_ptrace(options, sampler.refusal());
  readiness ready(sampler.readable(), signals.readable(), end);
  bool is_over = false;
  while (!is_over) {
    ready.wait(std::min(deadline, sampler.next_read()));
    sampler.read();
    is_over = ready.has_end() || sampler.has_ended(process) || clock::now() >= deadline ||
              (ready.has_signal() && signals.read().to_end);
  }
  sampler.finish();
}

} // namespace

sampled sample_program(const std::string& program, const std::vector<std::string>& words,
                       const sampler_options& options) {
  const taken_signals signals;
  started_program child(program, words);
  session_parts parts;
  int status = 0;
  try {
    status = perf_program(child, signals, options, parts);
  } catch (const perf_refused& e) {
    status = trace_program(child, signals, options, parts, e.what());
  }
  tell_of_left_processes(parts.into.recorded());
  return {.seen = profile_of(parts, options, joined_words(words)), .status = status};
}

sampled sample_process(pid_t process, std::optional<std::chrono::nanoseconds> duration,
                       const sampler_options& options) {
  const unique_fd end(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!end || !is_process(process))
    throw usage_problem(
        fmt::format("--pid {}: there is no such process; give the id of a running one", process));
  const time_point deadline = duration ? deadline_after(*duration) : no_deadline;
  const taken_signals signals;
  const std::string command = fmt::format("process {} ({})", process, command_of(process));
  session_parts parts;
  sample_running(process, signals, end.get(), deadline, options, parts);
  return {.seen = profile_of(parts, options, command), .status = 0};
}

} // namespace farcall::tool
