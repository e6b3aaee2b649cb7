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

/// Which of several ways to copy is the fastest for large copies, found out on the pieces of those
/// that are made anyway: at first each way in turn, later now and then, so that it also notices
/// when that changes. Processors differ by factors of three in what they favour, and so does one
/// with the load of its neighbours. Any thread may use it.
class copy_choice {
 public:
  /// Of these, which must outlive it; the first is taken while nothing is known.
  explicit copy_choice(std::span<const copy_kernel> kernels) noexcept;
  copy_choice(const copy_choice&) = delete;
  copy_choice& operator=(const copy_choice&) = delete;

  /// Copies a piece.
  void copy(void* to, const void* from, std::size_t bytes) noexcept;

  /// The way it takes; null while it has not tried all.
  [[nodiscard]] const copy_kernel* chosen() const noexcept {
    // Relaxed: what it points to never changes.
    return chosen_.load(std::memory_order_relaxed);
  }

  struct rate {
    const copy_kernel* kernel;
    double mib_per_second; ///< 0 while unknown
  };
  /// What it knows of each.
  [[nodiscard]] std::vector<rate> rates() const;

  // ---- for copy(), and tests ----

  /// The way for the next piece, and whether its time is to be told.
  struct turn {
    std::size_t kernel;
    bool is_timed;
  };
  [[nodiscard]] turn next(std::size_t bytes) noexcept;
  void add(std::size_t kernel, std::size_t bytes, std::uint64_t nanoseconds) noexcept;

  /// Of so many pieces one is timed once it has chosen.
  static constexpr std::uint32_t timed_of = 256;
  /// Smaller pieces tell nothing.
  static constexpr std::size_t least_timed = std::size_t{256} << 10;
  /// Pieces of each way until it chooses.
  static constexpr std::size_t first_samples = 8;

 private:
  static constexpr std::size_t most_kernels = 8;
  static constexpr std::size_t samples_kept = 16;

  struct record {
    std::array<float, samples_kept> ns_per_kib{}; ///< the last ones
    std::size_t taken = 0;
    [[nodiscard]] float typical() const noexcept;
  };

  void choose() noexcept;

  std::span<const copy_kernel> kernels_;
  std::atomic<const copy_kernel*> chosen_{nullptr};
  std::atomic<std::uint32_t> pieces_{0};
  mutable std::mutex mutex_;
  std::array<record, most_kernels> records_{}; ///< with the mutex
  std::size_t turn_ = 0;                       ///< with the mutex
};

} // namespace farcall
