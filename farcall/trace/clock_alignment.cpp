// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/clock_alignment.hpp>

#include <algorithm>
#include <utility>

namespace farcall::trace {
namespace {

/// Largest ratio of a sample's round trip to the shortest one. A sample with a longer round trip is
/// dropped, because interpolation between better samples is more exact.
constexpr std::uint64_t max_times_longer = 8;

/// Returns a - b as a signed number, because `a` may be less than `b`, for instance if they are
/// from clocks with different origins.
double difference(std::uint64_t a, std::uint64_t b) noexcept {
  return static_cast<double>(static_cast<std::int64_t>(a - b));
}

double slope(const clock_sample& a, const clock_sample& b) noexcept {
  const double own = difference(b.own, a.own);
  return own > 0 ? difference(b.hosts, a.hosts) / own : 1.0;
}

} // namespace

void clock_alignment::add(const std::vector<clock_sample>& together) {
  if (together.empty()) return;
  const clock_sample& best =
      *std::min_element(together.begin(), together.end(),
                        [](const auto& a, const auto& b) { return a.round_trip < b.round_trip; });
  // Drop a sample that is not later than the last one, because such a sample is wrong: clocks do
  // not run backwards.
  if (!all_.empty() && best.own <= all_.back().own) return;
  samples_.reserve(all_.size() + 1);
  all_.push_back(best);
  is_settled_ = false;
}

void clock_alignment::use_good_ones() const noexcept {
  if (std::exchange(is_settled_, true)) return;
  const auto by_round_trip = [](const auto& a, const auto& b) {
    return a.round_trip < b.round_trip;
  };
  const std::uint64_t shortest =
      std::min_element(all_.begin(), all_.end(), by_round_trip)->round_trip;
  samples_.clear();
  error_ = 0;
  is_same_ = true;
  for (const clock_sample& s : all_) {
    if (s.round_trip / max_times_longer > shortest) continue;
    samples_.push_back(s);
    const double uncertain = static_cast<double>(s.round_trip) / 2;
    error_ = std::max(error_, uncertain);
    const double apart = difference(s.hosts, s.own);
    is_same_ = is_same_ && apart <= uncertain && -apart <= uncertain;
  }
}

double clock_alignment::error() const noexcept {
  use_good_ones();
  return error_;
}

bool clock_alignment::is_same_clock() const noexcept {
  use_good_ones();
  return is_same_;
}

double clock_alignment::rate() const noexcept {
  use_good_ones();
  return samples_.size() < 2 ? expected_rate_ : slope(samples_.front(), samples_.back());
}

double clock_alignment::in_host_ticks(std::uint64_t own, std::uint64_t origin) const noexcept {
  use_good_ones();
  if (is_same_ || samples_.empty()) return difference(own, origin);
  // Find the last sample at or before `own`, and the sample after it.
  const auto after = std::upper_bound(samples_.begin(), samples_.end(), own,
                                      [](std::uint64_t at, const auto& s) { return at < s.own; });
  const clock_sample& base = after == samples_.begin() ? samples_.front() : *(after - 1);
  const bool is_between = after != samples_.begin() && after != samples_.end();
  const double runs = is_between ? slope(base, *after) : rate();
  return difference(base.hosts, origin) + difference(own, base.own) * runs;
}

} // namespace farcall::trace
