// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/copy_kernels.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace farcall {

/// Finds out which copy kernel is the fastest for large copies, by timing pieces of copies that the
/// program makes. At first each kernel is timed in turn. Later one kernel is timed from time to
/// time, so that changes of speed are noticed. Measuring is necessary, because the speed of a
/// kernel differs between processors by a factor of up to three, and depends on the load of the
/// neighbouring processors. Any thread may use it.
class copy_choice {
 public:
  /// Chooses among `kernels`, which must outlive this object. Until all kernels have been timed, a
  /// piece whose copy is not timed is copied by the first kernel.
  explicit copy_choice(std::span<const copy_kernel> kernels) noexcept;
  copy_choice(const copy_choice&) = delete;
  copy_choice& operator=(const copy_choice&) = delete;

  /// Copies a piece.
  void copy(void* to, const void* from, std::size_t bytes) noexcept;

  /// Returns the chosen kernel; null until all have been timed.
  [[nodiscard]] const copy_kernel* chosen() const noexcept {
    // Relaxed, because a kernel never changes.
    return chosen_.load(std::memory_order_relaxed);
  }

  struct rate {
    const copy_kernel* kernel;
    double mib_per_second; ///< 0 if not timed yet
  };
  /// Returns the measured rate of each kernel.
  [[nodiscard]] std::vector<rate> rates() const;

  // ---- for copy(), and tests ----

  /// Kernel that copies the next piece, and whether this piece is timed.
  struct turn {
    std::size_t kernel;
    bool is_timed;
  };
  [[nodiscard]] turn next(std::size_t bytes) noexcept;
  void add(std::size_t kernel, std::size_t bytes, std::uint64_t nanoseconds) noexcept;

  /// Once a kernel is chosen, one piece out of this many is timed.
  static constexpr std::uint32_t timed_of = 256;
  /// Least size of a piece that is timed, because the times of smaller pieces are too inexact.
  static constexpr std::size_t min_timed = std::size_t{256} << 10;
  /// Number of timed pieces of each kernel before the first choice.
  static constexpr std::size_t first_samples = 8;

 private:
  static constexpr std::size_t max_kernels = 8;
  static constexpr std::size_t samples_kept = 16;

  struct record {
    std::array<float, samples_kept> ns_per_kib{}; ///< the last samples
    std::size_t taken = 0;
    [[nodiscard]] float typical() const noexcept;
  };

  void choose() noexcept;

  std::span<const copy_kernel> kernels_;
  std::atomic<const copy_kernel*> chosen_{nullptr};
  std::atomic<std::uint32_t> pieces_{0};
  mutable std::mutex mutex_;
  std::array<record, max_kernels> records_{}; ///< guarded by the mutex
  std::size_t turn_ = 0;                      ///< guarded by the mutex
};

} // namespace farcall
