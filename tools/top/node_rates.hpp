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

/// What the processes of jobs had counted at a moment.
struct job_sample {
  struct process {
    pid_t number = 0;
    ino_t file = 0;
    ino_t numbers = 0;         ///< see counted_process
    std::optional<pid_t> host; ///< of its job, where that is here, too; see find_hosts()
    std::string program;
    process_counters counts;
    process_usage usage;
    /// Of the looks at each worker since the sample before: those that found a handler running, and
    /// which.
    std::uint64_t looks = 0;
    std::map<std::uint64_t, std::uint64_t> running;
  };
  std::chrono::steady_clock::time_point at;
  std::vector<process> processes;
};

/// Says of each process which of the others is the host of its job. What processes tell of each
/// other are the numbers of their containers, in which there may be the same ones.
void find_hosts(job_sample& sample);

/// A job: the machine and the process of its host, by its number here where it is here.
using job_key = std::pair<std::string, std::int64_t>;
[[nodiscard]] job_key job_of(const job_sample::process& p);

/// A node of a job over the time between two samples. Of nodes elsewhere there is what nodes here
/// count of their calls to them.
struct node_rates {
  std::int64_t job = 0; ///< number of the host's process: here, or else where that runs
  node_id node = 0;
  std::string name;
  std::string machine;
  std::int64_t process = 0;
  std::string route;    ///< from the host
  bool is_here = false; ///< its own counts are known, and those of its process
  double calls = 0;     ///< requests to it, in a second
  double bytes_in = 0;  ///< of messages to it, in a second
  double bytes_out = 0;
  double bytes_copied = 0;   ///< that it puts, gets and copies, in a second
  double failures = 0;       ///< calls to it that fail, in a second
  std::uint64_t queue = 0;   ///< calls to it without their answer, at the end
  std::optional<double> p50; ///< of calls to it, in nanoseconds
  std::optional<double> p99;
  std::optional<double> busy;      ///< share of the time that its workers run handlers
  std::optional<double> processor; ///< processors that its process uses
  std::uint64_t resident_bytes = 0;
  std::string function; ///< that its workers ran for the longest
};

/// By job, then node. What has counted less than before has another process, and starts anew.
[[nodiscard]] std::vector<node_rates> rates_between(const job_sample& before,
                                                    const job_sample& after);

/// The duration that a share of those counted does not exceed, in nanoseconds: the middle of its
/// bucket. Nothing where none was counted.
[[nodiscard]] std::optional<double> duration_at(const duration_counts& counts, double share);

/// Readable name of a handler of a process; "handler 17" where it has none.
[[nodiscard]] std::string handler_name(const process_counters& counts, std::uint32_t key);

} // namespace farcall::tool
