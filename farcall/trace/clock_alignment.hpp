#pragma once

#include <farcall/trace/batch.hpp>

#include <cstdint>
#include <vector>

namespace farcall::trace {

/// Moments of one process in ticks of the host, by samples of both clocks that were taken at
/// several times: between two of them both clocks are taken to run evenly. The estimate from the
/// exchange with the shortest round trip is Cristian's, and NTP's.
class clock_alignment {
 public:
  /// Of what was asked together, the one that took the shortest counts, unless it took much longer
  /// than those of other times.
  void add(const std::vector<clock_sample>& together);

  /// False: what the process shows as a moment says nothing.
  [[nodiscard]] bool is_known() const noexcept { return !all_.empty(); }
  /// Ticks of the host since its `origin`.
  [[nodiscard]] double in_host_ticks(std::uint64_t own, std::uint64_t origin) const noexcept;
  /// How far off that can be where a sample is near, in ticks: half of the longest of the round
  /// trips that count.
  [[nodiscard]] double error() const noexcept;
  /// Host ticks for each of the process's, for as long as there is one sample only.
  void expect_rate(double rate) noexcept { expected_rate_ = rate; }
  /// The same, over all samples.
  [[nodiscard]] double rate() const noexcept;
  /// Both read the same clock, as far as the samples can tell: then their ticks are taken as they
  /// are.
  [[nodiscard]] bool is_same_clock() const noexcept;

 private:
  /// Once for all that has been added: nodes may add any number, one by one.
  void use_good_ones() const noexcept;

  std::vector<clock_sample> all_; ///< the best of those that were taken together, by time
  double expected_rate_ = 1;
  mutable bool is_settled_ = true;
  mutable std::vector<clock_sample> samples_; ///< of all, what is used; has room for them
  mutable double error_ = 0;
  mutable bool is_same_ = true;
};

} // namespace farcall::trace
