// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "node_rates.hpp"
#include "pointed_functions.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace farcall::tool {

/// Samples the counters of jobs on this machine, as far as this user may read them. The jobs do not
/// notice it.
class job_sampler {
 public:
  /// `process` is any process of the job that is sampled. If it is empty, all jobs are sampled.
  explicit job_sampler(std::optional<pid_t> process) : only_(process) {}

  /// Takes a sample of the counters. Finds the processes anew, so that new ones are included and
  /// ended ones are not. Leaves out damaged counters, which others() then reports.
  [[nodiscard]] job_sample take();
  /// Polls from time to time which handlers the workers run. Ends at the time `end`, or earlier if
  /// `is_over()` returns true. That function is called before each poll. take() adds the results to
  /// the next sample.
  void watch(std::chrono::steady_clock::time_point end, const std::function<bool()>& is_over);

  /// Returns the number of counters that could not be read for the last sample, and the reason for
  /// one of the processes.
  [[nodiscard]] const unreadable_counters& others() const noexcept { return others_; }

 private:
  struct looks {
    std::uint64_t all = 0;
    std::map<std::uint64_t, std::uint64_t> running;
  };

  void keep_job_of(pid_t process, job_sample& sample);
  void look_once() noexcept;

  std::optional<pid_t> only_;
  unreadable_counters others_;
  std::vector<counted_process> processes_;
  pointed_functions functions_;
  /// Results of polling; the key is the inode of a process's counters.
  std::map<ino_t, looks> looks_;
};

} // namespace farcall::tool
