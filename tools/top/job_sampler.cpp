#include "job_sampler.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

namespace farcall::tool {
namespace {

/// Between two looks at what workers run: not a divisor of what programs repeat things by.
constexpr std::chrono::microseconds between_looks{19'700};

} // namespace

void job_sampler::find_processes() {
  processes_ = find_counted_processes(&others_);
  if (!only_) return;
  const auto wanted = std::find_if(processes_.begin(), processes_.end(),
                                   [&](const counted_process& p) { return p.process == *only_; });
  std::set<std::pair<std::string, std::int64_t>> jobs;
  for (const counted_process& p : processes_) {
    if (p.process != *only_) continue;
    const process_counters c = p.counters->read();
    jobs.emplace(c.host_machine, c.host_process);
  }
  if (wanted == processes_.end()) {
    processes_.clear();
    return;
  }
  std::erase_if(processes_, [&](const counted_process& p) {
    const process_counters c = p.counters->read();
    return !jobs.contains({c.host_machine, c.host_process});
  });
}

job_sample job_sampler::take() {
  find_processes();
  job_sample sample;
  sample.at = std::chrono::steady_clock::now();
  for (const counted_process& p : processes_) {
    job_sample::process taken;
    taken.number = p.process;
    taken.file = p.file;
    taken.program = p.program;
    taken.counts = p.counters->read();
    taken.usage = usage_of(p.process);
    if (const auto at = looks_.find(p.file); at != looks_.end()) {
      taken.looks = at->second.all;
      taken.running = std::move(at->second.running);
    }
    sample.processes.push_back(std::move(taken));
  }
  looks_.clear();
  return sample;
}

void job_sampler::look_once() noexcept {
  for (const counted_process& p : processes_) {
    try {
      looks& of_process = looks_[p.file];
      for (const std::uint64_t running : p.counters->running()) {
        ++of_process.all;
        if (running != 0) ++of_process.running[running];
      }
    } catch (const std::exception&) {
      // The next sample says what is wrong with its counters.
    }
  }
}

void job_sampler::watch(std::chrono::steady_clock::time_point end,
                        const std::function<bool()>& is_over) {
  while (!is_over()) {
    look_once();
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(end - now, between_looks));
  }
}

} // namespace farcall::tool
