// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/way_choice.hpp>

#include <algorithm>
#include <utility>

namespace farcall::detail {

way_choice::turn way_choice::next() noexcept {
  const std::lock_guard guard(mutex_);
  const std::uint64_t run = copies_++ / run_length;
  std::size_t way = best_;
  if (records_[0].taken < first_samples || records_[1].taken < first_samples) {
    way = run % 2;
  } else if (run % other_of == 0) {
    way = 1 - best_;
  }
  return {way, std::exchange(last_, way) == way};
}

void way_choice::add(std::size_t way, std::uint64_t bytes, std::uint64_t nanoseconds) noexcept {
  const std::lock_guard guard(mutex_);
  record& r = records_[way];
  r.ns_per_kib[r.taken++ % samples_kept] =
      static_cast<float>(nanoseconds) / (static_cast<float>(bytes) / 1024.0F);
  // Keep the current strategy unless the other one is clearly faster.
  constexpr float clearly = 0.95F;
  if (records_[1 - best_].taken != 0 &&
      records_[1 - best_].lowest() < clearly * records_[best_].lowest())
    best_ = 1 - best_;
}

/// Returns the lowest sample, because page faults and interrupts only make samples higher.
float way_choice::record::lowest() const noexcept {
  const std::size_t n = std::min(taken, samples_kept);
  return *std::min_element(ns_per_kib.begin(), ns_per_kib.begin() + static_cast<std::ptrdiff_t>(n));
}

} // namespace farcall::detail
