// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace farcall::detail {

/// Chooses the faster of two copy strategies by timing the program's own copies. It times some
/// copies by each strategy at first, and later, from time to time, some copies by the slower one.
/// Measuring is necessary, because the times depend on the pages, the caches and the positions of
/// the two processors, which neither end of the copy knows. Any thread may use it.
class way_choice {
 public:
  struct turn {
    std::size_t way; ///< strategy: 0 or 1
    bool is_timed;   ///< true if the caller must measure the copy's time and call add()
  };
  /// Returns the strategy of the next copy, and whether this copy is timed. The first copy after a
  /// change of strategy is not timed, because the caches still have the data of the other strategy.
  [[nodiscard]] turn next() noexcept;
  /// Adds the time of a copy. Callers omit times that say nothing about the strategy.
  void add(std::size_t way, std::uint64_t bytes, std::uint64_t nanoseconds) noexcept;

  /// Number of timed copies that each strategy makes at first.
  static constexpr std::size_t first_samples = 3;
  /// Number of copies in a run; all copies of a run use the same strategy.
  static constexpr std::uint64_t run_length = first_samples + 1;
  /// The slower strategy is used in one run out of this many.
  static constexpr std::uint64_t other_of = 64;

 private:
  static constexpr std::size_t samples_kept = 4;
  struct record {
    std::array<float, samples_kept> ns_per_kib{}; ///< the last samples
    std::size_t taken = 0;
    [[nodiscard]] float lowest() const noexcept;
  };

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::array<record, 2> records_{};
  std::size_t best_ = 0;
  std::size_t last_ = 2; ///< neither of the two
  std::uint64_t copies_ = 0;
};

} // namespace farcall::detail
