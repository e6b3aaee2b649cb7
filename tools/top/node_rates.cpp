// SPDX-License-Identifier: Apache-2.0
#include "node_rates.hpp"

#include <farcall/am/message.hpp>
#include <farcall/call/callable_description.hpp>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {
namespace {

/// Returns how much a counter has grown. A counter that is lower than before belongs to a new
/// process, so its growth is its value.
double growth(std::uint64_t before, std::uint64_t after) {
  return after >= before ? static_cast<double>(after - before) : static_cast<double>(after);
}

/// Sums of counters over several lanes: over all lanes on which a process serves calls, or over the
/// lanes on which it calls one node.
struct lane_sums {
  std::uint64_t requests = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t failures = 0;
  std::uint64_t in_flight = 0;
  duration_counts latency;
};

lane_sums served_by(const process_counters& c) {
  lane_sums sums;
  for (const process_counters::worker& w : c.workers)
    sums.requests += w.requests;
  for (const process_counters::server& s : c.servers) {
    sums.bytes_in += s.bytes_in;
    sums.bytes_out += s.bytes_out;
  }
  return sums;
}

lane_sums called_on(const process_counters& c, node_id node) {
  lane_sums sums;
  for (const process_counters::caller& l : c.callers) {
    if (l.peer != node) continue;
    sums.requests += l.calls + l.posts;
    sums.bytes_in += l.bytes_out;
    sums.bytes_out += l.bytes_in;
    sums.failures += l.failures;
    if (l.is_open && l.calls > l.answers) sums.in_flight += l.calls - l.answers;
    for (std::size_t i = 0; i < duration_counts::size; ++i)
      sums.latency.buckets[i] += l.latency.buckets[i];
  }
  return sums;
}

std::uint64_t copied_by(const process_counters& c) {
  return std::accumulate(c.threads.begin(), c.threads.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const process_counters::thread& t) {
                           return sum + t.bytes_put + t.bytes_got + t.bytes_copied;
                         });
}

const job_sample::process* find(const job_sample& sample, ino_t file) {
  const auto at = std::find_if(sample.processes.begin(), sample.processes.end(),
                               [&](const job_sample::process& p) { return p.file == file; });
  return at == sample.processes.end() ? nullptr : &*at;
}

/// Returns the nodes of all jobs, without rates. The nodes are the processes in the sample, and the
/// nodes of which these processes know.
std::map<std::pair<job_key, node_id>, node_rates> nodes_of(const job_sample& sample) {
  std::map<std::pair<job_key, node_id>, node_rates> nodes;
  for (const job_sample::process& p : sample.processes) {
    const job_key job = job_of(p);
    for (const process_counters::peer& known : p.counts.peers) {
      node_rates& n = nodes[{job, known.node}];
      n.job = job.second;
      n.node = known.node;
      n.name = known.name;
      n.machine = known.machine;
      // If the node's process is in the sample, its process id is already set. The id that another
      // process knows may be of another PID namespace.
      if (!n.is_here) n.process = known.process;
      if (p.counts.node == host_id || n.route.empty()) n.route = known.route;
    }
    node_rates& own = nodes[{job, p.counts.node}];
    own.job = job.second;
    own.node = p.counts.node;
    own.process = p.number;
    own.program = p.program.substr(p.program.rfind('/') + 1);
    own.is_here = true;
  }
  return nodes;
}

void add_own_counts(node_rates& n, const job_sample::process* before,
                    const job_sample::process& after, double seconds) {
  const lane_sums then = before != nullptr ? served_by(before->counts) : lane_sums{};
  const lane_sums now = served_by(after.counts);
  n.calls += growth(then.requests, now.requests) / seconds;
  n.bytes_in += growth(then.bytes_in, now.bytes_in) / seconds;
  n.bytes_out += growth(then.bytes_out, now.bytes_out) / seconds;
  const std::uint64_t copied = before != nullptr ? copied_by(before->counts) : 0;
  n.bytes_copied += growth(copied, copied_by(after.counts)) / seconds;
  n.resident_bytes = after.usage.resident_bytes;
  if (before != nullptr) {
    n.processor =
        std::max(0.0, after.usage.processor_seconds - before->usage.processor_seconds) / seconds;
  }
  if (after.looks == 0) return;
  std::uint64_t busy = 0;
  std::uint64_t most = 0;
  for (const auto& [what, looks] : after.running) {
    busy += looks;
    if (looks <= most) continue;
    most = looks;
    n.function = handler_name(after.counts, static_cast<std::uint32_t>(what),
                              static_cast<std::uint32_t>(what >> 32));
  }
  n.busy = static_cast<double>(busy) / static_cast<double>(after.looks);
}

/// Adds the counters that one process has for its calls to the node. A local node's requests and
/// bytes are not added here, because its own counters have them.
void add_calls(node_rates& n, const job_sample::process* before, const job_sample::process& after,
               duration_counts& latency, double seconds) {
  const lane_sums then = before != nullptr ? called_on(before->counts, n.node) : lane_sums{};
  const lane_sums now = called_on(after.counts, n.node);
  n.failures += growth(then.failures, now.failures) / seconds;
  n.queue += now.in_flight;
  for (std::size_t i = 0; i < duration_counts::size; ++i) {
    latency.buckets[i] +=
        now.latency.buckets[i] - std::min(then.latency.buckets[i], now.latency.buckets[i]);
  }
  if (n.is_here) return;
  n.calls += growth(then.requests, now.requests) / seconds;
  n.bytes_in += growth(then.bytes_in, now.bytes_in) / seconds;
  n.bytes_out += growth(then.bytes_out, now.bytes_out) / seconds;
}

} // namespace

void find_hosts(job_sample& sample) {
  for (job_sample::process& p : sample.processes) {
    const process_counters& own = p.counts;
    p.host.reset();
    for (const job_sample::process& other : sample.processes) {
      const process_counters& c = other.counts;
      if (c.node != host_id || c.process != own.host_process ||
          c.host_process != own.host_process || c.host_machine != own.host_machine)
        continue;
      // Several processes may match, because processes of different containers may have equal ids.
      // Prefer a host in the same PID namespace as the process. A job may span several containers,
      // so another host is better than none.
      if (!p.host || other.numbers == p.numbers) p.host = other.number;
    }
  }
}

job_key job_of(const job_sample::process& p) {
  return {p.counts.host_machine, p.host ? *p.host : p.counts.host_process};
}

std::vector<node_rates> rates_between(const job_sample& before, const job_sample& after) {
  const std::chrono::duration<double> between = after.at - before.at;
  const double seconds = std::max(between.count(), 1e-9);
  auto nodes = nodes_of(after);
  for (const job_sample::process& p : after.processes) {
    node_rates& own = nodes.at({job_of(p), p.counts.node});
    add_own_counts(own, find(before, p.file), p, seconds);
  }
  std::vector<node_rates> rates;
  for (auto& [key, n] : nodes) {
    duration_counts latency;
    for (const job_sample::process& p : after.processes) {
      if (job_of(p) == key.first) add_calls(n, find(before, p.file), p, latency, seconds);
    }
    n.p50 = duration_at(latency, 0.5);
    n.p99 = duration_at(latency, 0.99);
    rates.push_back(std::move(n));
  }
  return rates;
}

std::optional<double> duration_at(const duration_counts& counts, double share) {
  const std::uint64_t all =
      std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
  if (all == 0) return std::nullopt;
  const double wanted = share * static_cast<double>(all);
  std::uint64_t up_to = 0;
  for (std::size_t i = 0; i < duration_counts::size; ++i) {
    up_to += counts.buckets[i];
    if (counts.buckets[i] == 0 || static_cast<double>(up_to) < wanted) continue;
    const auto from = static_cast<double>(duration_counts::lower_bound(i));
    if (i + 1 == duration_counts::size) return from;
    return (from + static_cast<double>(duration_counts::lower_bound(i + 1))) / 2;
  }
  return std::nullopt;
}

std::string handler_name(const process_counters& counts, std::uint32_t key, std::uint32_t handle) {
  if (key < am::first_user_key) return "farcall's own";
  const std::size_t at = key - am::first_user_key;
  if (at >= counts.functions.size() || counts.functions[at].empty())
    return fmt::format("handler {}", key);
  const std::string* name = nullptr;
  std::size_t names = 0;
  for (const process_counters::named_function& f : counts.named) {
    if (handle == 0 || f.handle != handle || f.handler != counts.functions[at]) continue;
    name = &f.name;
    ++names;
  }
  if (names == 1) return *name;
  return describe_callable(counts.functions[at], "").name;
}

} // namespace farcall::tool
