#pragma once

#include "perf_session.hpp"
#include "ptrace_session.hpp"
#include "recording.hpp"
#include "sampler.hpp"

#include <farcall/base/clock.hpp>

#include <memory>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/types.h>

namespace farcall::tool {

/// Samples processes that run: with perf_event_open or, where that is refused, with ptrace. Leaves
/// no trace in them. One thread.
class process_sampler {
 public:
  /// Both outlive it.
  process_sampler(const sampler_options& options, recording& into, modules& files);
  process_sampler(const process_sampler&) = delete;
  process_sampler& operator=(const process_sampler&) = delete;
  ~process_sampler();

  /// A process and its descendants. False when it has ended. Throws failed_run when the system does
  /// not let it be sampled.
  [[nodiscard]] bool add(pid_t process);
  /// Why it samples with ptrace; empty: it does not.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

  /// Become readable when much has been sampled.
  [[nodiscard]] std::vector<int> readable() const;
  /// When read() is due.
  [[nodiscard]] time_point next_read() const;
  /// Takes what has been sampled. Does not block.
  void read();
  /// What was added has ended, and its parent waits for us to have noticed.
  [[nodiscard]] bool has_ended(pid_t process) const;
  /// Stops, and takes what is left. Waits for threads that must stop for it, for a second at most.
  void finish();

 private:
  [[nodiscard]] bool add_traced(pid_t process);

  sampler_options options_;
  recording& into_;
  modules& files_;
  std::string refusal_;
  std::unique_ptr<perf_session> perf_;
  std::unique_ptr<ptrace_session> ptrace_;
};

/// The rings are read at least so often: files that are mapped and soon deleted are still there.
inline constexpr std::chrono::milliseconds ring_reading_interval{100};

/// Until one of them has what it waits for, or the deadline.
void wait_for(std::vector<pollfd>& descriptors, time_point deadline);

/// What to allow where neither perf_event_open nor ptrace are, for these reasons.
[[nodiscard]] std::string advice_on_rights(const std::string& perf, const std::string& ptrace);

} // namespace farcall::tool
