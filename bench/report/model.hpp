#pragma once

#include <bench/report/statistics.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

/// What a report shows: figures beside their floors, in charts that are drawn from these values
/// alone.
namespace farcall::tool {

/// What numbers count; values are written with the prefix that suits.
enum class unit : std::uint8_t { nanoseconds, bytes, per_second, bytes_per_second, count, percent };

/// Of rates more is better, of everything else less.
[[nodiscard]] constexpr bool is_rate(unit u) {
  return u == unit::per_second || u == unit::bytes_per_second;
}

/// How an axis goes from numbers to places. `suited` is logarithmic where the largest value is many
/// times the smallest, and else linear from zero.
enum class scale : std::uint8_t { suited, linear, log2, log10 };

struct axis {
  std::string title;
  unit counts = unit::nanoseconds;
  scale by = scale::suited;
};

/// One measured figure of a series. What is not finite is left out of the chart.
struct chart_point {
  double x = 0;
  summary value;
  double floor = std::numeric_limits<double>::quiet_NaN(); ///< p50 of its own floor
};

/// `floor` is what nothing can beat, `published` what others have measured elsewhere.
enum class series_role : std::uint8_t { figure, floor, published };

struct chart_series {
  std::string name;
  std::vector<chart_point> points; ///< in the order of their x
  series_role role = series_role::figure;
};

/// Figures against a number: lines through medians, with bars from p1 to p99.
struct line_chart {
  std::string title;
  std::string subtitle;
  axis x;
  axis y;
  std::vector<chart_series> series;
};

/// One figure with a name instead of a number.
struct chart_row {
  std::string what;
  summary value;
  summary floor;      ///< not-a-numbers where it has none
  std::string remark; ///< why there is no value, for example
};

/// Figures below each other, each beside its own floor.
struct row_chart {
  std::string title;
  std::string subtitle;
  axis x;
  std::vector<chart_row> rows;
};

using chart = std::variant<line_chart, row_chart>;

/// A page of charts.
struct report {
  std::string title;
  std::string text;          ///< what was measured, in a sentence
  std::string circumstances; ///< a line each: processor, kernel, build, link, floor
  std::vector<chart> charts;
  std::vector<std::string> left_out; ///< what was not measured, and why
};

/// How many times as long as its floor a figure takes; of rates, how many times as much the floor
/// gives. Not-a-number where one of them is missing or zero.
[[nodiscard]] double overhead(unit counts, double value, double floor);

/// A summary of one value, of which nothing else is known.
[[nodiscard]] summary only(double value);

/// A summary where nothing was measured.
[[nodiscard]] summary nothing_measured();

/// A floor that is the same at every x of these series.
[[nodiscard]] chart_series level_floor(std::string name, const summary& floor,
                                       const std::vector<chart_series>& beside);

/// Whether any chart has a value to draw.
[[nodiscard]] bool has_figures(const report& r);

} // namespace farcall::tool
