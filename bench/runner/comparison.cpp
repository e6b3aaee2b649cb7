// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"
#include "options.hpp"

#include <tools/common/table.hpp>

#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

void comparison::take(turn_samples samples) {
  ours_ns = summarize(std::move(samples.ours));
  bare_ns = summarize(std::move(samples.bare));
}

std::string comparison::goal_text() const {
  if (goal == 0) return {};
  return fmt::format("{}, {}", format_ratio(goal), is_reached() ? "reached" : "missed");
}

turn_samples measure_by_turns(std::size_t turns, const std::function<double()>& ours,
                              const std::function<double()>& bare) {
  turn_samples samples;
  samples.ours.reserve(turns);
  samples.bare.reserve(turns);
  (void)ours();
  (void)bare();
  for (std::size_t i = 0; i < turns; ++i) {
    samples.ours.push_back(ours());
    samples.bare.push_back(bare());
  }
  return samples;
}

json comparison_json(const comparison& c) {
  if (!c.absent.empty()) return {{"what", c.what}, {"absent", c.absent}};
  json document = percentiles_json(c.ours_ns);
  document["what"] = c.what;
  document["bare"] = percentiles_json(c.bare_ns);
  document["bare_what"] = c.bare;
  document["ratio"] = rounded(c.ratio());
  document["turns"] = c.ours_ns.samples;
  if (c.goal != 0) {
    document["goal"] = rounded(c.goal);
    document["is_reached"] = c.is_reached();
  }
  return document;
}

json comparisons_json(const std::vector<comparison>& all) {
  json document;
  for (const comparison& c : all)
    document[c.key] = comparison_json(c);
  return document;
}

std::string comparisons_table(const std::string& title, const std::vector<comparison>& all) {
  table out{{{title, table::align::left},
             {"p1"},
             {"p50"},
             {"p99"},
             {"bare p50"},
             {"ratio"},
             {"goal", table::align::left},
             {"bare", table::align::left}}};
  std::string absent;
  for (const comparison& c : all) {
    if (!c.absent.empty()) {
      absent += fmt::format("absent: {}: {}\n", c.what, c.absent);
      continue;
    }
    std::vector<std::string> cells{c.what};
    for (std::string& cell : percentile_cells(c.ours_ns, format_time))
      cells.push_back(std::move(cell));
    for (std::string cell :
         {format_time(c.bare_ns.p50), format_ratio(c.ratio()), c.goal_text(), c.bare})
      cells.push_back(std::move(cell));
    out.add_row(std::move(cells));
  }
  return out.text() + absent;
}

row_chart comparisons_chart(std::string title, const std::vector<comparison>& all) {
  row_chart chart{
      std::move(title), "Floor: the same work without farcall, by turns.", {"time"}, {}};
  for (const comparison& c : all) {
    const bool is_absent = !c.absent.empty();
    std::string remark = c.absent;
    if (!is_absent && c.goal != 0) remark = "goal: " + c.goal_text();
    chart.rows.push_back({c.what, is_absent ? nothing_measured() : c.ours_ns,
                          is_absent ? nothing_measured() : c.bare_ns, std::move(remark)});
  }
  return chart;
}

} // namespace farcall::tool
