#include "axis_scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>

namespace farcall::tool {

namespace {

/// From this ratio of largest to smallest value on, small ones could not be told from zero on a
/// linear axis.
constexpr double spread_of_logarithms = 20;
/// Part of the axis that zero takes, in front of logarithms.
constexpr double share_of_zero = 0.06;
/// Ratios of floating-point numbers that should be whole are off by less.
constexpr double slack = 1e-9;

constexpr std::array steps_of_decade{1.0, 2.0, 5.0};

/// The smallest step that makes no more ticks than that.
double step_of(double span, std::size_t most, unit counts) {
  const double least = span / static_cast<double>(std::max<std::size_t>(most, 2) - 1);
  if (counts == unit::bytes) return std::exp2(std::ceil(std::log2(least) - slack));
  const double power = std::pow(10, std::floor(std::log10(least) + slack));
  for (const double step : steps_of_decade) {
    if (step * power >= least * (1 - slack)) return step * power;
  }
  return 10 * power;
}

/// The number of 1, 2, 5 times a power of ten that is next below, or above.
double round_down(double value) {
  const double power = std::pow(10, std::floor(std::log10(value) + slack));
  double best = power;
  for (const double step : steps_of_decade) {
    if (step * power <= value * (1 + slack)) best = step * power;
  }
  return best;
}
double round_up(double value) {
  const double below = round_down(value);
  if (below >= value * (1 - slack)) return below;
  const double power = std::pow(10, std::floor(std::log10(value) + slack));
  for (const double step : steps_of_decade) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

/// Nothing that is measured is larger, or smaller but for zero; what is would leave no room for
/// ends beyond it.
constexpr double largest_placed = 1e100;
constexpr double smallest_placed = 1e-100;

/// In ascending order, without those that are missing.
std::vector<double> known_of(const std::vector<double>& values) {
  std::vector<double> known;
  for (const double v : values) {
    if (std::abs(v) <= largest_placed) known.push_back(std::abs(v) < smallest_placed ? 0 : v);
  }
  std::ranges::sort(known);
  return known;
}

std::vector<double>::const_iterator first_positive(const std::vector<double>& known) {
  return std::ranges::find_if(known, [](double v) { return v > 0; });
}

/// What is asked for, where the values can be placed so.
scale scale_for(scale wanted, const std::vector<double>& known) {
  const auto positive = first_positive(known);
  if (positive == known.end()) return scale::linear;
  if (wanted != scale::suited) return wanted;
  return known.front() > 0 && known.back() / *positive >= spread_of_logarithms ? scale::log10
                                                                               : scale::linear;
}

double power_of_two(double value, double (*round)(double), double offset) {
  return std::exp2(round(std::log2(value) + offset));
}

} // namespace

std::vector<double> linear_ticks(double low, double high, std::size_t most, unit counts) {
  if (!(low < high)) return {low};
  double step = step_of(high - low, most, counts);
  if (counts == unit::count) step = std::max(step, 1.0);
  std::vector<double> ticks;
  const double first = std::ceil(low / step - slack);
  const double last = std::floor(high / step + slack);
  // Counted, since large numbers stay the same when one is added.
  for (double i = 0; i <= last - first; ++i)
    ticks.push_back((first + i) * step + 0.0); // not -0
  if (ticks.empty()) return {low, high};
  return ticks;
}

std::vector<double> log10_ticks(double low, double high, std::size_t most) {
  const auto with = [&](std::span<const double> steps, int each) {
    std::vector<double> ticks;
    const int end = static_cast<int>(std::ceil(std::log10(high)));
    for (int p = static_cast<int>(std::floor(std::log10(low))); p <= end; ++p) {
      if (p % each != 0) continue;
      for (const double step : steps) {
        const double tick = step * std::pow(10, p);
        if (tick >= low * (1 - slack) && tick <= high * (1 + slack)) ticks.push_back(tick);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = with(steps_of_decade, 1);
  for (int each = 1; ticks.size() > std::max<std::size_t>(most, 2); ++each)
    ticks = with(std::span(steps_of_decade).first(1), each);
  if (ticks.size() < 2 && low < high) return {low, high};
  return ticks;
}

std::vector<double> log2_ticks(double low, double high, std::size_t most) {
  const int first = static_cast<int>(std::ceil(std::log2(low) - slack));
  const int last = static_cast<int>(std::floor(std::log2(high) + slack));
  if (last <= first) return low < high ? std::vector{low, high} : std::vector{low};
  const int each = 1 + (last - first) / static_cast<int>(std::max<std::size_t>(most, 2));
  std::vector<double> ticks;
  for (int p = first; p <= last; ++p) {
    if (p % each == 0) ticks.push_back(std::exp2(p));
  }
  return ticks;
}

axis_scale::axis_scale(const axis& described, const std::vector<double>& values, ends how,
                       double begin, double end, std::size_t most_ticks)
    : by_(scale_for(described.by, known_of(values))), zero_at_(begin), begin_(begin), end_(end) {
  std::vector<double> known = known_of(values);
  if (known.empty()) known = {0, 1};
  if (by_ == scale::linear) {
    make_linear(known, how, most_ticks, described.counts);
  } else {
    make_logarithmic(known, how, most_ticks);
  }
  if (how == ends::exact && known.front() == known.back()) ticks_ = {known.front()};
}

void axis_scale::make_linear(const std::vector<double>& known, ends how, std::size_t most_ticks,
                             unit counts) {
  low_ = how == ends::exact ? known.front() : std::min(0.0, known.front());
  high_ = std::max(low_, known.back());
  if (low_ == high_) high_ = low_ + (low_ == 0 ? 1 : std::abs(low_) / 2);
  ticks_ = linear_ticks(low_, high_, most_ticks, counts);
  if (how == ends::exact || ticks_.size() < 2) return;
  const double step = ticks_[1] - ticks_[0];
  const double first = std::floor(low_ / step + slack);
  const double last = std::ceil(high_ / step - slack);
  low_ = first * step;
  high_ = last * step;
  ticks_.clear();
  for (double i = 0; i <= last - first; ++i)
    ticks_.push_back((first + i) * step + 0.0);
}

void axis_scale::make_logarithmic(const std::vector<double>& known, ends how,
                                  std::size_t most_ticks) {
  low_ = *first_positive(known);
  high_ = known.back();
  if (how == ends::rounded) {
    low_ = by_ == scale::log2 ? power_of_two(low_, std::floor, slack) : round_down(low_);
    high_ = by_ == scale::log2 ? power_of_two(high_, std::ceil, -slack) : round_up(high_);
  }
  if (low_ == high_) {
    low_ /= 2;
    high_ *= 2;
  }
  has_zero_ = how == ends::exact && known.front() == 0;
  if (has_zero_) begin_ += (end_ - begin_) * share_of_zero;
  ticks_ = by_ == scale::log2 ? log2_ticks(low_, high_, most_ticks)
                              : log10_ticks(low_, high_, most_ticks);
  if (has_zero_) ticks_.insert(ticks_.begin(), 0.0);
}

bool axis_scale::has(double value) const {
  if (!std::isfinite(value)) return false;
  return by_ == scale::linear || value > 0 || (has_zero_ && value == 0);
}

double axis_scale::position(double value) const {
  if (by_ == scale::linear) return (value - low_) / (high_ - low_);
  return std::log(value / low_) / std::log(high_ / low_);
}

double axis_scale::at(double value) const {
  if (by_ != scale::linear && value <= 0) return has_zero_ ? zero_at_ : begin_;
  return begin_ + (end_ - begin_) * std::clamp(position(value), 0.0, 1.0);
}

} // namespace farcall::tool
