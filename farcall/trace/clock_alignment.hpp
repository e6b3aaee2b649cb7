// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/batch.hpp>

#include <cstdint>
#include <vector>

namespace farcall::trace {

/// Converts ticks of one process to ticks of the host. Uses samples of both clocks that were taken
/// at several times, and assumes that both clocks run at constant rates between two samples. If
/// several samples were taken at about the same time, only the one with the shortest round trip is
/// used, as in Cristian's algorithm and in NTP.
class clock_alignment {
 public:
  /// Adds a group of samples that were taken at about the same time. Keeps only the sample with the
  /// shortest round trip. This sample is not used if its round trip is much longer than the
  /// shortest round trip of all groups.
  void add(const std::vector<clock_sample>& together);

  /// False if there are no samples, so that times of the process cannot be converted.
  [[nodiscard]] bool is_known() const noexcept { return !all_.empty(); }
  /// Returns the time `own` in ticks of the host since `origin`.
  [[nodiscard]] double in_host_ticks(std::uint64_t own, std::uint64_t origin) const noexcept;
  /// Returns the error bound of converted times near a sample, in ticks. This is half of the
  /// longest round trip that is used.
  [[nodiscard]] double error() const noexcept;
  /// Sets the number of host ticks per tick of the process. This number is used if there are fewer
  /// than two samples, from which the rate could be computed.
  void expect_rate(double rate) noexcept { expected_rate_ = rate; }
  /// Returns by how many ticks the host's clock advances per tick of the process's clock. Computes
  /// this rate from the first and the last sample.
  [[nodiscard]] double rate() const noexcept;
  /// True if the process and the host may read the same clock, as processes on one machine do: the
  /// samples do not contradict it. Ticks are not converted in this case.
  [[nodiscard]] bool is_same_clock() const noexcept;

 private:
  /// Selects the samples to use, if samples were added since the last selection. add() does not
  /// call this function, because a node may add any number of samples one by one, and each
  /// selection looks at all samples.
  void use_good_ones() const noexcept;

  std::vector<clock_sample> all_; ///< best sample of each group, sorted by time
  double expected_rate_ = 1;
  mutable bool is_settled_ = true;
  mutable std::vector<clock_sample> samples_; ///< samples that are used; has capacity for all
                                              ///< samples
  mutable double error_ = 0;
  mutable bool is_same_ = true;
};

} // namespace farcall::trace
