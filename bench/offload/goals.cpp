// SPDX-License-Identifier: Apache-2.0
#include "goals.hpp"

#include <bench/report/statistics.hpp>
#include <tools/common/table.hpp>

#include <fmt/format.h>

namespace farcall::tool {

double nanoseconds_of(const call_goal& goal, const figure& f) {
  const call_goal::bound& bound =
      f.floor.p50 < shared_cache_floor ? goal.shared_cache : goal.separate_caches;
  return bound.factor * f.ring_only.value().p50 + bound.ns;
}

std::vector<std::string> engine_cells(const figure& f) {
  std::vector<std::string> cells(3);
  if (f.ring_only) {
    cells[0] = format_time(f.ring_only->p50);
    cells[1] = format_time(f.ns.p50 - f.ring_only->p50);
  }
  if (f.goal)
    cells[2] =
        fmt::format("{}, {}", format_time(*f.goal), f.ns.p50 <= *f.goal ? "reached" : "missed");
  return cells;
}

json engine_json(const figure& f) {
  json document = figure_json(f);
  if (f.ring_only) {
    document["ring_only"] = percentiles_json(*f.ring_only);
    document["engine"] = rounded(f.ns.p50 - f.ring_only->p50);
  }
  if (f.goal) document["goal"] = rounded(*f.goal);
  return document;
}

} // namespace farcall::tool
