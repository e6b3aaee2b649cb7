// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/statistics.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

/// Figures with their floors, and the charts that charts.py draws from them.
namespace farcall::tool {

/// Unit of an axis; values are printed with the matching prefix.
enum class unit : std::uint8_t { nanoseconds, bytes, per_second, bytes_per_second, count, percent };

/// Mapping of an axis. `suited` is logarithmic if the largest value is many times the smallest, and
/// otherwise linear from zero.
enum class scale : std::uint8_t { suited, linear, log2, log10 };

struct axis {
  std::string title;
  unit counts = unit::nanoseconds;
  scale by = scale::suited;
};

/// A measured figure of a series. Values that are not finite are omitted from the chart.
struct chart_point {
  double x = 0;
  summary value;
  double floor = std::numeric_limits<double>::quiet_NaN(); ///< p50 of this figure's floor
};

/// `floor`: the lower bound; `published`: figures that others have measured elsewhere.
enum class series_role : std::uint8_t { figure, floor, published };

struct chart_series {
  std::string name;
  std::vector<chart_point> points; ///< sorted by x
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

/// A figure with a name instead of a number.
struct chart_row {
  std::string what;
  summary value;
  summary floor;      ///< NaN if it has no floor
  std::string remark; ///< for example why the figure has no value
};

/// Figures one below the other, each with its own floor.
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
  std::string circumstances; ///< one line each: processor, kernel, build, link, floor
  std::vector<chart> charts;
  std::vector<std::string> left_out; ///< what was not measured, and why
};

/// Returns a summary of a single value.
[[nodiscard]] summary only(double value);

/// Returns a summary of NaNs.
[[nodiscard]] summary nothing_measured();

/// Returns a floor that is equal at every x of these series.
[[nodiscard]] chart_series level_floor(std::string name, const summary& floor,
                                       const std::vector<chart_series>& beside);

/// True if a chart has a value to draw.
[[nodiscard]] bool has_figures(const report& r);

} // namespace farcall::tool
