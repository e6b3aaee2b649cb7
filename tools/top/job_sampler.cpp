// SPDX-License-Identifier: Apache-2.0
#include "job_sampler.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

namespace farcall::tool {
namespace {

/// Time between two polls of the handlers that run. Programs often repeat their work with a round
/// period. This time is no divisor of such periods, because otherwise each poll could find the same
/// handler.
constexpr std::chrono::microseconds between_polls{19'700};
/// Maximum number of different handlers that polling a process between two samples can record. Real
/// processes run fewer.
constexpr std::size_t max_running = 10'000;

} // namespace

void job_sampler::keep_job_of(pid_t process, job_sample& sample) {
  std::set<job_key> jobs; // the jobs of the process, which may take part in several jobs
  for (const job_sample::process& p : sample.processes) {
    if (p.number == process) jobs.insert(job_of(p));
  }
  std::set<ino_t> files;
  for (const job_sample::process& p : sample.processes) {
    if (jobs.contains(job_of(p))) files.insert(p.file);
  }
  std::erase_if(sample.processes,
                [&](const job_sample::process& p) { return !files.contains(p.file); });
  std::erase_if(processes_, [&](const counted_process& p) { return !files.contains(p.file); });
}

job_sample job_sampler::take() {
  others_ = {};
  processes_.clear();
  job_sample sample;
  sample.at = std::chrono::steady_clock::now();
  for (counted_process& p : find_counted_processes(others_)) {
    job_sample::process taken;
    try {
      taken.counts = p.counters->read();
    } catch (const error& e) {
      others_.add(e);
      continue;
    }
    taken.number = p.process;
    taken.file = p.file;
    taken.numbers = p.numbers;
    taken.program = p.program;
    taken.usage = usage_of(p.process);
    if (const auto at = looks_.find(p.file); at != looks_.end()) {
      taken.looks = at->second.all;
      taken.running = std::move(at->second.running);
      functions_.add_names(taken);
    }
    sample.processes.push_back(std::move(taken));
    processes_.push_back(std::move(p));
  }
  looks_.clear();
  find_hosts(sample);
  if (only_) keep_job_of(*only_, sample);
  return sample;
}

void job_sampler::look_once() noexcept {
  for (const counted_process& p : processes_) {
    try {
      looks& of_process = looks_[p.file];
      for (const std::uint64_t running : p.counters->running()) {
        ++of_process.all;
        if (running == 0) continue;
        if (const auto at = of_process.running.find(running); at != of_process.running.end()) {
          ++at->second;
        } else if (of_process.running.size() < max_running) {
          of_process.running.emplace(running, 1);
        }
      }
    } catch (const std::exception&) {
      // Ignore damaged counters here. The next take() reads the same counters, and reports them by
      // others().
    }
  }
}

void job_sampler::watch(std::chrono::steady_clock::time_point end,
                        const std::function<bool()>& is_over) {
  while (!is_over()) {
    look_once();
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(end - now, between_polls));
  }
}

} // namespace farcall::tool
