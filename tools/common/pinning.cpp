// SPDX-License-Identifier: Apache-2.0
#include "pinning.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace farcall::tool {

namespace {

cpu_set_t current_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    throw failed_run("cannot read the processors this process may use: " + reason_text(errno));
  }
  return set;
}

void bind_this_thread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    throw failed_run("cannot bind to processor " + cpu_list_text(cpus) + ": " + reason_text(errno));
  }
}

void check_allowed(const char* option, int cpu, const std::vector<int>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
    throw usage_problem(option + ('=' + std::to_string(cpu)) +
                        ": this process may not use that processor; choose one of " +
                        cpu_list_text(allowed));
  }
}

} // namespace

std::vector<int> allowed_cpus() {
  const cpu_set_t set = current_set();
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
      ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last != first) text += '-' + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

void pin_this_thread(int cpu) { bind_this_thread({cpu}); }

scoped_pin::scoped_pin(int cpu) : scoped_pin(std::vector<int>{cpu}) {}

scoped_pin::scoped_pin(const std::vector<int>& cpus) : before_(current_set()) {
  bind_this_thread(cpus);
}

scoped_pin::~scoped_pin() { sched_setaffinity(0, sizeof before_, &before_); }

core_pair choose_cores(std::optional<int> host, std::optional<int> target) {
  const std::vector<int> allowed = allowed_cpus();
  if (host) check_allowed("--host-cpu", *host, allowed);
  if (target) check_allowed("--target-cpu", *target, allowed);
  const auto first_other_than = [&](std::optional<int> taken) {
    for (const int cpu : allowed) {
      if (cpu != taken) return cpu;
    }
    return allowed.front();
  };
  const int host_cpu = host ? *host : first_other_than(target);
  const int target_cpu = target ? *target : first_other_than(host_cpu);
  return {host_cpu, target_cpu};
}

} // namespace farcall::tool
