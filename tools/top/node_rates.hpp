// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/counted_processes.hpp>

#include <farcall/memory/process_counters.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall::tool {

/// Counters of all sampled processes at one point in time.
struct job_sample {
  struct process {
    pid_t number = 0;
    ino_t file = 0;
    ino_t numbers = 0; ///< see counted_process
    /// Process id of the host of the process's job, in the PID namespace of `farcall top`. It is
    /// empty if the host is not in the sample; see find_hosts().
    std::optional<pid_t> host;
    std::string program;
    process_counters counts;
    process_usage usage;
    /// Results of polling the process's workers since the previous sample. `looks` is the number of
    /// polls of all workers. `running` says for each handler how many polls found it running.
    std::uint64_t looks = 0;
    std::map<std::uint64_t, std::uint64_t> running;
  };
  std::chrono::steady_clock::time_point at;
  std::vector<process> processes;
};

/// Sets for each process of the sample which other process is the host of its job. Processes name
/// their host by its id in their own PID namespace, so the hosts of several containers may have
/// equal ids.
void find_hosts(job_sample& sample);

/// Key that distinguishes jobs: the machine of the job's host, and the host's process id. If the
/// host is in the sample, the id is valid in this process's PID namespace. Otherwise it is the id
/// by which the job's processes know the host.
using job_key = std::pair<std::string, std::int64_t>;
[[nodiscard]] job_key job_of(const job_sample::process& p);

/// Rates of one node of a job, in the time between two samples. If the node's process is in the
/// sample, its requests and bytes come from its own counters. Otherwise they come from the callers
/// on this machine. Failures, the queue and durations always come from the callers on this machine.
struct node_rates {
  std::int64_t job = 0; ///< process id of the job's host, as in job_key
  node_id node = 0;
  std::string name;
  std::string machine;
  std::int64_t process = 0;
  std::string route;   ///< from the host
  std::string program; ///< name of the file that the node's process runs; empty if unknown
  /// True if the node's process is in the sample, so that its own counters are known.
  bool is_here = false;
  double calls = 0;    ///< requests per second that other nodes send to the node
  double bytes_in = 0; ///< bytes per second of messages that the node receives
  double bytes_out = 0;
  double bytes_copied = 0; ///< bytes per second that the node's threads put, get and copy
  double failures = 0;     ///< calls to the node that fail, per second
  /// Number of calls to the node that had no reply yet when the second sample was taken.
  std::uint64_t queue = 0;
  std::optional<double> p50; ///< median duration of calls to the node, in nanoseconds
  std::optional<double> p99;
  /// Share of the polls that found a worker of the node running a handler.
  std::optional<double> busy;
  std::optional<double> processor; ///< processors that the node's process has used on average
  std::uint64_t resident_bytes = 0;
  std::string function; ///< handler that the most polls found running
};

/// Returns the rates of all nodes, sorted by job and then by node. If a counter is lower in the
/// second sample, it belongs to a new process and is counted from 0.
[[nodiscard]] std::vector<node_rates> rates_between(const job_sample& before,
                                                    const job_sample& after);

/// Returns a duration in nanoseconds. The given share of the counted calls took no longer than
/// this. The counts are in buckets, so the result is the middle of a bucket, or the lower bound of
/// the last bucket. Returns nothing if no calls were counted.
[[nodiscard]] std::optional<double> duration_at(const duration_counts& counts, double share);

/// Returns the name of a handler for users. The counters of its process have the names. If the
/// handler calls the function with the handle `handle`, and the counters name this function,
/// returns the function's name. Returns "farcall's own" for handlers of farcall itself, and a text
/// such as "handler 17" for a handler without a name.
[[nodiscard]] std::string handler_name(const process_counters& counts, std::uint32_t key,
                                       std::uint32_t handle = 0);

} // namespace farcall::tool
