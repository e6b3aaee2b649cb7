#pragma once

#include <farcall/base/language.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace farcall::detail {

/// Which of two ways to copy takes less time, found out on copies that are made anyway: some by
/// each at first, some by the other now and then. Which it is depends on pages, caches, and where
/// the two processors are, of which neither end is told. Any thread may use it.
class way_choice {
 public:
  struct turn {
    std::size_t way; ///< 0 or 1
    bool is_timed;   ///< what it takes is to be added
  };
  /// For the next copy. The first after a change is not timed: it finds the memory in the caches as
  /// the other way has left it.
  [[nodiscard]] turn next() noexcept;
  /// What a copy took. Leave out those that tell nothing of the way.
  void add(std::size_t way, std::uint64_t bytes, std::uint64_t nanoseconds) noexcept;

  /// Timed copies by each way at first.
  static constexpr std::size_t first_samples = 3;
  /// Copies by a way until it is changed, if it is only tried.
  static constexpr std::uint64_t run_length = first_samples + 1;
  /// Of so many runs one is by the other way.
  static constexpr std::uint64_t other_of = 64;

 private:
  static constexpr std::size_t samples_kept = 4;
  struct record {
    std::array<float, samples_kept> ns_per_kib{}; ///< the last ones
    std::size_t taken = 0;
    [[nodiscard]] float lowest() const noexcept;
  };

  mutable std::mutex mutex_;
  // With the mutex.
  std::array<record, 2> records_{};
  std::size_t best_ = 0;
  std::size_t last_ = 2; ///< neither
  std::uint64_t copies_ = 0;
};

} // namespace farcall::detail
