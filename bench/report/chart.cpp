#include "chart.hpp"
#include "markup.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// "187 ns at 64 B to 1.05 µs at 64 KiB".
std::string ends_text(const line_chart& c, const chart_series& s) {
  std::vector<chart_point> known;
  std::ranges::copy_if(s.points, std::back_inserter(known),
                       [](const chart_point& p) { return std::isfinite(p.value.p50); });
  if (known.empty()) return "not measured";
  const auto text = [&](const chart_point& p) {
    return fmt::format("{} at {}", value_text(c.y.counts, p.value.p50), tick_text(c.x.counts, p.x));
  };
  if (known.size() == 1) return text(known.front());
  return text(known.front()) + " to " + text(known.back());
}

std::string words_for(const line_chart& c) {
  std::string words = fmt::format("{} against {}, medians.", c.y.title, c.x.title);
  for (const chart_series& s : c.series) {
    words += fmt::format(" {}: {}", s.name, ends_text(c, s));
    const std::string ratio = overheads_of(s, c.y.counts);
    words += ratio.empty() ? "." : fmt::format(", {} its floor.", ratio);
  }
  return words;
}

std::string words_for(const row_chart& c) {
  std::string words = fmt::format("{}, medians.", c.x.title);
  for (const chart_row& r : c.rows) {
    if (!std::isfinite(r.value.p50)) {
      words += fmt::format(" {}: not measured.", r.what);
      continue;
    }
    words += fmt::format(" {}: {}", r.what, value_text(c.x.counts, r.value.p50));
    const double ratio = overhead(c.x.counts, r.value.p50, r.floor.p50);
    words += std::isfinite(ratio) ? fmt::format(", {} its floor.", format_ratio(ratio)) : ".";
  }
  return words;
}

} // namespace

const std::string& title_of(const chart& c) {
  return std::visit([](const auto& one) -> const std::string& { return one.title; }, c);
}

std::string description_of(const chart& c) {
  return std::visit([](const auto& one) { return words_for(one); }, c);
}

std::string overheads_of(const chart_series& s, unit counts) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const chart_point& p : s.points) {
    const double ratio = overhead(counts, p.value.p50, p.floor);
    if (!std::isfinite(ratio)) continue;
    low = std::min(low, ratio);
    high = std::max(high, ratio);
  }
  if (low > high) return {};
  const std::string from = format_number(low);
  const std::string to = format_number(high);
  return from == to ? to + " x" : fmt::format("{} to {} x", from, to);
}

} // namespace farcall::tool
