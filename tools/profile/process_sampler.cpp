// SPDX-License-Identifier: Apache-2.0
#include "process_sampler.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/outcome.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

namespace farcall::tool {

std::string advice_on_rights(const std::string& perf, const std::string& ptrace) {
  const std::string level = first_line_of("/proc/sys/kernel/perf_event_paranoid");
  return fmt::format(
      "the system lets nobody sample this ({}; {}). Processes of other users are root's to sample; "
      "for one's own, allow one of the two: sysctl kernel.perf_event_paranoid=2 (it is {}), or "
      "kernel.yama.ptrace_scope=0; in a container, --cap-add PERFMON or SYS_PTRACE",
      perf, ptrace, level.empty() ? "unknown" : level);
}

void wait_for(std::vector<pollfd>& descriptors, time_point deadline) {
  for (pollfd& d : descriptors)
    d.revents = 0;
  const auto left = std::max(deadline - clock::now(), clock::duration::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec limit{
      seconds.count(),
      std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count()};
  (void)ppoll(descriptors.data(), descriptors.size(), &limit, nullptr);
}

process_sampler::process_sampler(const sampler_options& options, recording& into, modules& files)
    : options_(options), into_(into), files_(files) {}

process_sampler::~process_sampler() = default;

bool process_sampler::add(pid_t process) {
  if (ptrace_) return add_traced(process);
  try {
    if (options_.by_ptrace) throw perf_refused("perf_event_open is not wanted");
    if (!perf_) {
      perf_ = std::make_unique<perf_session>(options_.samples_per_second, options_.stacks, into_,
                                             files_);
    }
    return perf_->add_running(process);
  } catch (const perf_refused& e) {
    refusal_ = e.what();
    return add_traced(process);
  }
}

bool process_sampler::add_traced(pid_t process) {
  if (!ptrace_) {
    ptrace_ = std::make_unique<ptrace_session>(options_.samples_per_second,
                                               options_.stacks != call_graph::none, into_, files_);
  }
  try {
    return ptrace_->add_running(process);
  } catch (const ptrace_refused& e) {
    // If another process traces the process already, name the tracer, because a process can have
    // only one tracer.
    if (const long tracer = value_in_file(fmt::format("/proc/{}/status", process), "TracerPid");
        tracer > 0) {
      throw failed_run(fmt::format("process {} traces it, a debugger or another sampler with "
                                   "ptrace; try again when it has detached ({})",
                                   tracer, refusal_));
    }
    throw failed_run(advice_on_rights(refusal_, e.what()));
  }
}

std::vector<int> process_sampler::readable() const {
  return perf_ ? perf_->readable() : std::vector<int>{};
}

time_point process_sampler::next_read() const {
  const time_point due = clock::now() + ring_reading_interval;
  return ptrace_ ? std::min(due, ptrace_->next_tick()) : due;
}

void process_sampler::read() {
  if (perf_) perf_->read();
  if (ptrace_) ptrace_->work();
}

bool process_sampler::has_ended(pid_t process) const {
  return ptrace_ && ptrace_->status_of(process);
}

void process_sampler::finish() {
  if (perf_) perf_->finish();
  if (ptrace_) ptrace_->finish();
}

} // namespace farcall::tool
