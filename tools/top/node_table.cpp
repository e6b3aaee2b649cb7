// SPDX-License-Identifier: Apache-2.0
#include "node_table.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace farcall::tool {
namespace {

struct node_column {
  std::string header;
  bool is_text;   ///< aligned left
  int importance; ///< columns that do not fit are dropped, the one with the lowest importance first
  std::function<std::string(const node_rates&)> cell;
};

std::string bytes_per_second(double bytes) {
  // Larger values are printed as this value. Only damaged counters have such values.
  constexpr double most = 1e18;
  return bytes < 0.5 ? "0" : format_bytes(static_cast<std::uint64_t>(std::min(bytes, most))) + "/s";
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}", 100 * *share) : "-";
}

std::string duration_text(const std::optional<double>& ns) { return ns ? format_time(*ns) : "-"; }

std::vector<node_column> columns_for(const std::vector<node_rates>& nodes) {
  std::vector<node_column> columns;
  const bool has_several = std::any_of(
      nodes.begin(), nodes.end(), [&](const node_rates& n) { return n.job != nodes.front().job; });
  if (has_several)
    columns.push_back({"job", false, 90, [](const auto& n) { return fmt::format("{}", n.job); }});
  const auto add = [&](std::string header, bool is_text, int importance, auto cell) {
    columns.push_back({std::move(header), is_text, importance, cell});
  };
  add("node", false, 100, [](const auto& n) { return fmt::format("{}", n.node); });
  add("name", true, 30, [](const auto& n) { return n.name; });
  add("program", true, 58, [](const auto& n) { return n.program.empty() ? "-" : n.program; });
  add("pid", false, 50, [](const auto& n) { return fmt::format("{}", n.process); });
  add("route", true, 40, [](const auto& n) { return n.route.empty() ? "-" : n.route; });
  add("calls/s", false, 95, [](const auto& n) { return format_number(n.calls); });
  add("p50", false, 80, [](const auto& n) { return duration_text(n.p50); });
  add("p99", false, 85, [](const auto& n) { return duration_text(n.p99); });
  add("in", false, 60, [](const auto& n) { return bytes_per_second(n.bytes_in); });
  add("out", false, 60, [](const auto& n) { return bytes_per_second(n.bytes_out); });
  add("copied", false, 45, [](const auto& n) { return bytes_per_second(n.bytes_copied); });
  add("queue", false, 70, [](const auto& n) { return fmt::format("{}", n.queue); });
  add("fail/s", false, 35, [](const auto& n) { return format_number(n.failures); });
  add("busy%", false, 92, [](const auto& n) { return percent(n.busy); });
  add("CPU%", false, 75, [](const auto& n) { return percent(n.processor); });
  add("memory", false, 55,
      [](const auto& n) { return n.resident_bytes == 0 ? "-" : format_bytes(n.resident_bytes); });
  add("function", true, 65, [](const auto& n) { return n.function.empty() ? "-" : n.function; });
  return columns;
}

/// Returns the text, truncated to `width` columns of the terminal.
std::string cut_to(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::string kept;
  for (std::size_t i = 0; i < text.size() && display_width(kept) < width;) {
    std::size_t next = i + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0U) == 0x80)
      ++next;
    kept += text.substr(i, next - i);
    i = next;
  }
  return kept;
}

std::string padded(const std::string& text, std::size_t width, bool is_text) {
  const std::size_t taken = display_width(text);
  const std::string blanks(width > taken ? width - taken : 0, ' ');
  return is_text ? text + blanks : blanks + text;
}

} // namespace

std::span<const column_meaning> column_meanings() {
  static constexpr column_meaning all[] = {
      {"job", "process id of the job's host, if there are several jobs"},
      {"route", "transport of the host's messages to the node"},
      {"calls/s", "requests that the node serves in a second"},
      {"p50, p99", "durations of calls to the node: the median and the 99th percentile, sampled"},
      {"in, out", "bytes of messages that the node receives and sends in a second"},
      {"copied", "bytes that the node's threads put, get and copy in a second"},
      {"queue", "calls to the node without a reply"},
      {"fail/s", "calls to the node that fail in a second"},
      {"busy%", "share of polls that find a worker of the node in a handler"},
      {"CPU%", "processor time of the node's process; 200 is two processors"},
      {"memory", "resident memory of the node's process"},
      {"function", "handler that the workers ran the longest"}};
  return all;
}

void sort_nodes(std::vector<node_rates>& nodes, node_order by) {
  const auto key = [by](const node_rates& n) {
    switch (by) {
    case node_order::calls:
      return n.calls;
    case node_order::p99:
      return n.p99.value_or(-1);
    case node_order::queue:
      return static_cast<double>(n.queue);
    case node_order::busy:
      return n.busy.value_or(-1);
    case node_order::processor:
      return n.processor.value_or(-1);
    case node_order::memory:
      return static_cast<double>(n.resident_bytes);
    default:
      return 0.0;
    }
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](const node_rates& a, const node_rates& b) {
    if (by == node_order::node) return std::pair(a.job, a.node) < std::pair(b.job, b.node);
    return key(a) > key(b);
  });
}

std::vector<std::string> node_table(const std::vector<node_rates>& nodes, std::size_t width) {
  std::vector<node_column> columns = columns_for(nodes);
  std::vector<std::vector<std::string>> cells(columns.size());
  std::vector<std::size_t> widths(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths[c] = columns[c].header.size();
    for (const node_rates& n : nodes) {
      // Replace control characters. The names come from other processes, and could otherwise
      // control the terminal.
      cells[c].push_back(valid_text(columns[c].cell(n)));
      widths[c] = std::max(widths[c], display_width(cells[c].back()));
    }
  }
  std::vector<bool> is_shown(columns.size(), true);
  const auto total = [&] {
    std::size_t sum = 0;
    for (std::size_t c = 0; c < columns.size(); ++c)
      sum += is_shown[c] ? widths[c] + 2 : 0;
    return sum < 2 ? 0 : sum - 2;
  };
  // Width to which the names of functions are reduced before columns are dropped. Names may be
  // long, but their first letters distinguish them well enough.
  constexpr std::size_t enough_of_function = 12;
  std::size_t& function_width = widths.back();
  while (width != 0 && total() > width) {
    if (const std::size_t over = total() - width;
        is_shown.back() && function_width > enough_of_function) {
      function_width =
          std::max(enough_of_function, function_width - std::min(over, function_width));
      continue;
    }
    std::size_t least = columns.size();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (is_shown[c] &&
          (least == columns.size() || columns[c].importance < columns[least].importance)) {
        least = c;
      }
    }
    if (std::count(is_shown.begin(), is_shown.end(), true) == 1) break;
    is_shown[least] = false;
  }
  const auto line_of = [&](auto&& text_of) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (!is_shown[c]) continue;
      if (!line.empty()) line += "  ";
      line += padded(cut_to(text_of(c), widths[c]), widths[c], columns[c].is_text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return width == 0 ? line : cut_to(line, width);
  };
  std::vector<std::string> lines{line_of([&](std::size_t c) { return columns[c].header; })};
  for (std::size_t row = 0; row < nodes.size(); ++row)
    lines.push_back(line_of([&](std::size_t c) { return cells[c][row]; }));
  return lines;
}

json nodes_json(const std::vector<node_rates>& nodes) {
  json all = json::array();
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
  };
  for (const node_rates& n : nodes) {
    json one{{"job", n.job},
             {"node", n.node},
             {"name", n.name},
             {"machine", n.machine},
             {"program", n.program},
             {"pid", n.process},
             {"route", n.route},
             {"is_here", n.is_here},
             {"calls_per_s", n.calls},
             {"p50_ns", number(n.p50)},
             {"p99_ns", number(n.p99)},
             {"bytes_in_per_s", n.bytes_in},
             {"bytes_out_per_s", n.bytes_out},
             {"bytes_copied_per_s", n.bytes_copied},
             {"failures_per_s", n.failures},
             {"queue", n.queue},
             {"busy", number(n.busy)},
             {"processors", number(n.processor)},
             {"function", n.function}};
    one["resident_bytes"] = n.is_here ? json(n.resident_bytes) : json(nullptr);
    all.push_back(std::move(one));
  }
  return all;
}

} // namespace farcall::tool
