// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace farcall::tool {

summary only(double value) { return {value, value, value, value, value, 1}; }

summary nothing_measured() { return summarize({}); }

chart_series level_floor(std::string name, const summary& floor,
                         const std::vector<chart_series>& beside) {
  chart_series level{std::move(name), {}, series_role::floor};
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const chart_series& s : beside) {
    for (const chart_point& p : s.points) {
      low = std::min(low, p.x);
      high = std::max(high, p.x);
    }
  }
  if (low <= high) level.points.push_back({low, floor});
  if (low < high) level.points.push_back({high, floor});
  return level;
}

namespace {

bool has_value(const line_chart& c) {
  return std::ranges::any_of(c.series, [](const chart_series& s) {
    return s.role == series_role::figure && std::ranges::any_of(s.points, [](const chart_point& p) {
             return std::isfinite(p.value.p50);
           });
  });
}

bool has_value(const row_chart& c) {
  return std::ranges::any_of(c.rows, [](const chart_row& r) { return std::isfinite(r.value.p50); });
}

} // namespace

bool has_figures(const report& r) {
  return std::ranges::any_of(r.charts, [](const chart& c) {
    return std::visit([](auto& one) { return has_value(one); }, c);
  });
}

} // namespace farcall::tool
