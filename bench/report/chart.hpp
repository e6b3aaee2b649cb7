#pragma once

#include <bench/report/model.hpp>

#include <string>

namespace farcall::tool {

/// Shapes of SVG in a rectangle whose upper left corner is 0,0.
struct drawn_chart {
  std::string markup;
  double height = 0;
};

inline constexpr double chart_width = 960;

/// Draws it for chart_style(). The same chart is always drawn the same.
[[nodiscard]] drawn_chart draw(const line_chart& c);
[[nodiscard]] drawn_chart draw(const row_chart& c);
[[nodiscard]] inline drawn_chart draw(const chart& c) {
  return std::visit([](const auto& one) { return draw(one); }, c);
}

[[nodiscard]] const std::string& title_of(const chart& c);

/// What the chart shows, in words, for those who cannot see it.
[[nodiscard]] std::string description_of(const chart& c);

/// "1.07 x", or "1.02 to 1.31 x": how far the figures of a series are above their floors; empty
/// where they have none.
[[nodiscard]] std::string overheads_of(const chart_series& s, unit counts);

} // namespace farcall::tool
