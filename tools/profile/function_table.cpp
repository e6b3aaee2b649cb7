// SPDX-License-Identifier: Apache-2.0
#include "function_table.hpp"

#include "check.hpp"
#include "text.hpp"

#include <tools/common/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace farcall::tool {

namespace {

constexpr std::size_t narrowest = 20;
constexpr std::size_t narrowest_name = 12;

/// Numbers the functions of a profile. Frames with equal function names and modules get the same
/// number.
struct function_numbers {
  std::vector<std::uint32_t> of_frame;
  std::vector<function_row> functions; ///< without samples so far
};

function_numbers functions_of(const profile& seen) {
  function_numbers numbers;
  std::map<std::pair<std::string, std::string>, std::uint32_t> known;
  for (const profile_frame& frame : seen.frames) {
    const auto next = static_cast<std::uint32_t>(numbers.functions.size());
    const auto [at, is_new] = known.try_emplace({name_of(frame), valid_text(frame.module)}, next);
    if (is_new)
      numbers.functions.push_back({.function = at->first.first, .module = at->first.second});
    numbers.of_frame.push_back(at->second);
  }
  return numbers;
}

/// Sort key of a group: the node, the process, the thread, and the title.
using group_key = std::tuple<std::uint64_t, std::int32_t, std::int32_t, std::string>;

group_key group_of(const profile_thread& thread, function_table_options::per group) {
  if (group == function_table_options::per::profile) return {};
  const std::uint64_t node = thread.node;
  if (group == function_table_options::per::thread) {
    return {node, thread.process, thread.thread, process_name(thread) + ", " + thread_name(thread)};
  }
  return thread.node == no_node ? group_key{node, thread.process, 0, process_name(thread)}
                                : group_key{node, 0, 0, fmt::format("node {}", thread.node)};
}

void count_activity(function_group& group, activity does, bool counts) {
  ++group.samples;
  ++(does == activity::computes ? group.computing
     : does == activity::waits  ? group.waiting
                                : group.idle);
  if (counts) ++group.counted;
}

std::vector<function_row> rows_of(const profile& seen, const function_numbers& numbers,
                                  const std::map<std::uint32_t, std::uint64_t>& samples_of_stack) {
  std::vector<function_row> rows = numbers.functions;
  // For each function, the stack for which it was last counted, so that a recursive function counts
  // only once for a stack.
  std::vector<std::uint32_t> counted_for(rows.size(), profile_stack::none);
  for (const auto& [stack, count] : samples_of_stack) {
    rows[numbers.of_frame[seen.stacks[stack].frame]].self += count;
    for (std::uint32_t at = stack; at != profile_stack::none; at = seen.stacks[at].caller) {
      const std::uint32_t function = numbers.of_frame[seen.stacks[at].frame];
      if (std::exchange(counted_for[function], stack) != stack) rows[function].total += count;
    }
  }
  std::erase_if(rows, [](const function_row& row) { return row.total == 0; });
  std::sort(rows.begin(), rows.end(), [](const function_row& a, const function_row& b) {
    return std::tie(b.self, b.total, a.function, a.module) <
           std::tie(a.self, a.total, b.function, b.module);
  });
  return rows;
}

/// Shortens a text to its beginning and its end. The end is kept because it distinguishes functions
/// of one class.
std::string shortened(const std::string& text, std::size_t width) {
  const std::size_t length = display_width(text);
  if (length <= width) return text;
  const std::size_t front = width - 1 - (width - 1) / 3;
  const std::size_t skipped = length - (width - 1);
  std::string result;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t next = i + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0U) == 0x80U)
      ++next;
    if (column == front) result += "…";
    if (column < front || column >= front + skipped) result += text.substr(i, next - i);
    ++column;
    i = next;
  }
  return result;
}

std::string wrapped(const std::string& text, std::optional<std::size_t> width) {
  if (!width) return text + '\n';
  std::string result;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(' ', i), text.size());
    const std::string word = shortened(text.substr(i, end - i), *width);
    if (column > 0) {
      const bool fits = column + 1 + display_width(word) <= *width;
      result += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    result += word;
    column += display_width(word);
    i = end + 1;
  }
  return result + '\n';
}

/// Columns, the most important first. If there is not enough space, the last columns are dropped
/// first.
enum class figure : std::uint8_t { self_share, total_share, self_seconds, self, total };

std::string header_of(figure column) {
  switch (column) {
  case figure::self_share:
    return "self %";
  case figure::total_share:
    return "total %";
  case figure::self_seconds:
    return "self s";
  case figure::self:
    return "self";
  case figure::total:
    return "total";
  }
  return {};
}

std::string cell_of(figure column, const function_row& row, std::uint64_t counted, double seconds) {
  switch (column) {
  case figure::self_share:
    return percent(row.self, counted);
  case figure::total_share:
    return percent(row.total, counted);
  case figure::self_seconds:
    return fmt::format("{:.3f}", static_cast<double>(row.self) * seconds);
  case figure::self:
    return std::to_string(row.self);
  case figure::total:
    return std::to_string(row.total);
  }
  return {};
}

std::size_t width_of(figure column, const function_group& group, double seconds) {
  std::size_t width = header_of(column).size();
  for (const function_row& row : group.rows)
    width = std::max(width, cell_of(column, row, group.counted, seconds).size());
  return width;
}

/// Layout of a group's table: its columns, and the widths of the names of functions and modules.
struct layout {
  std::vector<figure> figures;
  std::optional<std::size_t> function_width;
  std::optional<std::size_t> module_width;
  bool has_modules = true;
};

layout layout_of(const function_group& group, std::optional<std::size_t> width, double seconds) {
  std::vector<figure> figures{figure::self_share, figure::total_share};
  if (seconds > 0) figures.push_back(figure::self_seconds); // unknown without a rate
  figures.insert(figures.end(), {figure::self, figure::total});
  if (!width) return {.figures = figures, .function_width = {}, .module_width = {}};

  std::size_t taken = 0;
  layout chosen{.figures = {}, .function_width = {}, .module_width = {}, .has_modules = false};
  for (const figure column : figures) {
    const std::size_t more = width_of(column, group, seconds) + 2;
    if (!chosen.figures.empty() && taken + more + narrowest_name > *width) break;
    chosen.figures.push_back(column);
    taken += more;
  }
  const std::size_t left = *width > taken ? *width - taken : 1;
  chosen.has_modules = left >= 3 * narrowest_name;
  std::size_t max_module = 0;
  for (const function_row& row : group.rows)
    max_module = std::max(max_module, display_width(base_name(row.module)));
  const std::string_view header = "module";
  chosen.module_width = std::max(header.size(), std::min(left / 3, max_module));
  chosen.function_width = chosen.has_modules ? left - 2 - *chosen.module_width : left;
  return chosen;
}

std::string group_text(const function_group& group, const function_table_options& options,
                       double seconds) {
  const std::optional<std::size_t> width = options.width;
  std::string text;
  if (!group.title.empty()) text += wrapped(group.title, width);
  text += wrapped(fmt::format("{} samples: {} computed ({} %), {} waited, {} idle", group.samples,
                              group.computing, percent(group.computing, group.samples),
                              group.waiting, group.idle),
                  width);
  if (group.rows.empty()) return text;

  const layout shape = layout_of(group, width, seconds);
  std::vector<table::column> columns;
  for (const figure column : shape.figures)
    columns.push_back({header_of(column)});
  if (shape.has_modules) columns.push_back({"module", table::align::left});
  // The name is in the last column, so that a long name does not lengthen the other lines.
  columns.push_back({"function", table::align::left});
  table rows(columns, table::last_column::is_open);
  const std::size_t shown =
      options.max_rows == 0 ? group.rows.size() : std::min(options.max_rows, group.rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const function_row& row = group.rows[i];
    std::vector<std::string> cells;
    for (const figure column : shape.figures)
      cells.push_back(cell_of(column, row, group.counted, seconds));
    if (shape.has_modules) {
      cells.push_back(shape.module_width
                          ? shortened(std::string(base_name(row.module)), *shape.module_width)
                          : row.module);
    }
    cells.push_back(shape.function_width ? shortened(row.function, *shape.function_width)
                                         : row.function);
    rows.add_row(std::move(cells));
  }
  text += rows.text();
  if (shown < group.rows.size())
    text += wrapped(fmt::format("and {} more functions", group.rows.size() - shown), width);
  return text;
}

} // namespace

std::vector<function_group> function_groups(const profile& seen,
                                            const function_table_options& options) {
  check(seen);
  const function_numbers numbers = functions_of(seen);
  std::map<group_key, std::pair<function_group, std::map<std::uint32_t, std::uint64_t>>> groups;
  std::vector<group_key> keys;
  for (const profile_thread& thread : seen.threads)
    keys.push_back(group_of(thread, options.group));
  if (options.group == function_table_options::per::profile) groups.try_emplace({});
  for (const profile_sample& sample : seen.samples) {
    auto& [group, samples_of_stack] = groups[keys[sample.thread]];
    const bool counts = options.also_waiting || sample.does == activity::computes;
    count_activity(group, sample.does, counts);
    if (counts) ++samples_of_stack[sample.stack];
  }
  std::vector<function_group> result;
  for (auto& [key, entry] : groups) {
    entry.first.title = std::get<std::string>(key);
    entry.first.rows = rows_of(seen, numbers, entry.second);
    result.push_back(std::move(entry.first));
  }
  return result;
}

std::string function_table(const profile& seen, const function_table_options& asked) {
  function_table_options options = asked;
  if (options.width) options.width = std::max(*options.width, narrowest);
  std::string text;
  for (const function_group& group : function_groups(seen, options)) {
    if (!text.empty()) text += '\n';
    text += group_text(group, options, seen.seconds_per_sample());
  }
  if (seen.lost > 0) {
    text += wrapped(fmt::format("The kernel dropped {} more samples.", seen.lost), options.width);
  }
  return text;
}

} // namespace farcall::tool
