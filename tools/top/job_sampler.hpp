#pragma once

#include "node_rates.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace farcall::tool {

/// Looks at what the jobs of this user do, without disturbing them.
class job_sampler {
 public:
  /// `process`: a process of the only job to look at; else all jobs.
  explicit job_sampler(std::optional<pid_t> process) : only_(process) {}

  /// What has been counted until now. Finds processes that have begun, and lets go of those that
  /// have ended. Leaves out those whose counters make no sense.
  [[nodiscard]] job_sample take();
  /// Looks, again and again, at what workers run, until `end` or until `is_over()`, which is asked
  /// each time; the next sample has it. Sleeps in between.
  void watch(std::chrono::steady_clock::time_point end, const std::function<bool()>& is_over);

  /// What the last sample lacks.
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
  std::map<ino_t, looks> looks_; ///< by the file of a process's counters
};

} // namespace farcall::tool
