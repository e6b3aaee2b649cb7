#pragma once

#include <bench/report/model.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::tool {

/// From the numbers of an axis to places, and the ticks between them.
///
/// A logarithmic axis has no place for zero. Where zero was measured (an empty message), it gets
/// one before the smallest other number.
class axis_scale {
 public:
  /// How the ends of the axis follow from the values: those of `rounded` are ticks.
  enum class ends : std::uint8_t { exact, rounded };

  /// For values of which some may be missing (not finite). `begin` and `end` are the places of the
  /// ends; there are about `most_ticks` ticks.
  axis_scale(const axis& described, const std::vector<double>& values, ends how, double begin,
             double end, std::size_t most_ticks);

  /// Whether that number has a place.
  [[nodiscard]] bool has(double value) const;
  /// Its place, which for numbers beyond the ends is the end.
  [[nodiscard]] double at(double value) const;

  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  [[nodiscard]] scale by() const { return by_; }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  /// Whether zero stands before the logarithmic part.
  [[nodiscard]] bool has_zero() const { return has_zero_; }
  /// Where the part behind zero begins.
  [[nodiscard]] double begin() const { return begin_; }

 private:
  void make_linear(const std::vector<double>& known, ends how, std::size_t most_ticks, unit counts);
  void make_logarithmic(const std::vector<double>& known, ends how, std::size_t most_ticks);
  [[nodiscard]] double position(double value) const;

  scale by_;
  double low_ = 0;
  double high_ = 1;
  double zero_at_;
  double begin_;
  double end_;
  bool has_zero_ = false;
  std::vector<double> ticks_;
};

/// Multiples of 1, 2 or 5 times a power of ten (of bytes: of a power of two), at most that many
/// between the two.
[[nodiscard]] std::vector<double> linear_ticks(double low, double high, std::size_t most,
                                               unit counts);
/// 1, 2 and 5 times each power of ten, or the powers alone, or each second, third, … of them.
[[nodiscard]] std::vector<double> log10_ticks(double low, double high, std::size_t most);
/// Powers of two, or of four, eight, …
[[nodiscard]] std::vector<double> log2_ticks(double low, double high, std::size_t most);

} // namespace farcall::tool
