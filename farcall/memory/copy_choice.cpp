// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/memory/copy_choice.hpp>

#include <algorithm>
#include <chrono>

namespace farcall {

copy_choice::copy_choice(std::span<const copy_kernel> kernels) noexcept
    : kernels_(kernels.first(std::min(kernels.size(), max_kernels))) {
  if (kernels_.size() == 1) chosen_.store(&kernels_.front(), std::memory_order_relaxed);
}

void copy_choice::copy(void* to, const void* from, std::size_t bytes) noexcept {
  const turn now = next(bytes);
  if (!now.is_timed) return kernels_[now.kernel].copy(to, from, bytes);
  const time_point start = clock::now();
  kernels_[now.kernel].copy(to, from, bytes);
  const std::chrono::nanoseconds took = clock::now() - start;
  add(now.kernel, bytes, static_cast<std::uint64_t>(took.count()));
}

copy_choice::turn copy_choice::next(std::size_t bytes) noexcept {
  const copy_kernel* const best = chosen();
  const std::size_t usual = best == nullptr ? 0 : static_cast<std::size_t>(best - kernels_.data());
  if (kernels_.size() == 1 || bytes < min_timed) return {usual, false};
  // Relaxed: a count only.
  if (best != nullptr && pieces_.fetch_add(1, std::memory_order_relaxed) % timed_of != 0)
    return {usual, false};
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard) return {usual, false};
  return {turn_++ % kernels_.size(), true};
}

void copy_choice::add(std::size_t kernel, std::size_t bytes, std::uint64_t nanoseconds) noexcept {
  const std::lock_guard guard(mutex_);
  record& r = records_[kernel];
  r.ns_per_kib[r.taken++ % samples_kept] =
      static_cast<float>(nanoseconds) / (static_cast<float>(bytes) / 1024.0F);
  choose();
}

/// Returns the lower quartile of the times, because first touches of pages and interrupts only slow
/// a copy down.
float copy_choice::record::typical() const noexcept {
  std::array<float, samples_kept> sorted = ns_per_kib;
  const std::size_t n = std::min(taken, samples_kept);
  const auto quartile = sorted.begin() + static_cast<std::ptrdiff_t>(n / 4);
  std::nth_element(sorted.begin(), quartile, sorted.begin() + static_cast<std::ptrdiff_t>(n));
  return *quartile;
}

void copy_choice::choose() noexcept {
  std::size_t best = 0;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (records_[k].taken < first_samples) return;
    if (records_[k].typical() < records_[best].typical()) best = k;
  }
  // Change the choice only if another kernel is clearly faster.
  constexpr float clearly = 0.95F;
  const copy_kernel* const now = chosen();
  if (now != nullptr &&
      records_[best].typical() >=
          clearly * records_[static_cast<std::size_t>(now - kernels_.data())].typical())
    return;
  chosen_.store(&kernels_[best], std::memory_order_relaxed);
}

std::vector<copy_choice::rate> copy_choice::rates() const {
  const std::lock_guard guard(mutex_);
  std::vector<rate> all;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const float ns = records_[k].taken == 0 ? 0.0F : records_[k].typical();
    all.push_back({&kernels_[k], ns > 0 ? 1e9 / 1024 / static_cast<double>(ns) : 0});
  }
  return all;
}

} // namespace farcall
