// SPDX-License-Identifier: Apache-2.0
#include "report_json.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace farcall::tool {

namespace {

/// Names of the enumerators of `unit`, `scale` and `series_role`, in order.
constexpr std::array units{"nanoseconds",      "bytes", "per_second",
                           "bytes_per_second", "count", "percent"};
constexpr std::array scales{"suited", "linear", "log2", "log10"};
constexpr std::array roles{"figure", "floor", "published"};

json axis_json(const axis& a) {
  return {{"title", a.title},
          {"unit", units.at(static_cast<std::size_t>(a.counts))},
          {"scale", scales.at(static_cast<std::size_t>(a.by))}};
}

json point_json(json x, const summary& value, double floor) {
  json point = json::array();
  for (const json& number :
       std::array<json, 6>{std::move(x), value.p1, value.p50, value.p99, floor, value.samples})
    point.push_back(number);
  return point;
}

json series_json(const line_chart& c) {
  json series = json::array();
  for (const chart_series& s : c.series) {
    json points = json::array();
    for (const chart_point& p : s.points)
      points.push_back(point_json(p.x, p.value, p.floor));
    series.push_back({{"name", s.name},
                      {"role", roles.at(static_cast<std::size_t>(s.role))},
                      {"points", points}});
  }
  return series;
}

/// Returns each row as a series of one point without x.
json series_json(const row_chart& c) {
  json series = json::array();
  for (const chart_row& r : c.rows) {
    json points = json::array();
    points.push_back(point_json(nullptr, r.value, r.floor.p50));
    series.push_back(
        {{"name", r.what}, {"role", "figure"}, {"remark", r.remark}, {"points", points}});
  }
  return series;
}

template <class Chart>
json chart_json(const Chart& c) {
  json chart{{"title", c.title},
             {"subtitle", c.subtitle},
             {"x", axis_json(c.x)},
             {"series", series_json(c)}};
  if constexpr (requires { c.y; }) chart["y"] = axis_json(c.y);
  return chart;
}

} // namespace

json report_json(const report& r) {
  json charts = json::array();
  for (const chart& c : r.charts)
    charts.push_back(std::visit([](const auto& one) { return chart_json(one); }, c));
  return {{"title", r.title},
          {"text", r.text},
          {"circumstances", r.circumstances},
          {"charts", charts},
          {"left_out", r.left_out}};
}

} // namespace farcall::tool
