// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "program_tables.hpp"
#include "table_difference.hpp"

#include <farcall/call/callable_description.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Exit status if the tables of two programs differ.
constexpr int tables_differ = 1;

struct function_options {
  bool all = false;
  bool json = false;
  unsigned start_timeout_ms = 10'000;
};

struct shown_program {
  std::string name; ///< name of the program, as the user has typed it
  detail::program_table table;
};

/// Returns the names of two programs for use in messages. The folders are left out, unless both
/// names would then be equal.
std::pair<std::string, std::string> short_names(const shown_program& first,
                                                const shown_program& second) {
  const auto file = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  if (file(first.name) == file(second.name)) return {first.name, second.name};
  return {file(first.name), file(second.name)};
}

std::uint32_t key_of(std::uint32_t row) { return key_resolver::first_row_key + row; }

std::string key_text(std::uint32_t row) { return row == 0 ? "-" : std::to_string(key_of(row)); }

callable_description text_of(const detail::program_table& table, std::uint32_t row) {
  return describe_callable(table.rows.at(row).first, table.rows.at(row).second);
}

/// Returns a text with the layout of a callable's result and arguments. If they contain further
/// types, their layouts follow after a semicolon.
std::string layout_text(const callable_description& c) {
  return c.contents.empty() ? c.layout : c.layout + "; " + c.contents;
}

/// Returns the callables of a table that are printed, sorted by name. Functions of farcall itself
/// are only included if `all`.
std::vector<std::pair<std::uint32_t, callable_description>>
sorted_rows(const detail::program_table& table, bool all) {
  std::vector<std::pair<std::uint32_t, callable_description>> rows;
  for (std::uint32_t row = function_registry::first_index; row < table.rows.size(); ++row) {
    callable_description text = text_of(table, row);
    if (all || !text.is_library) rows.emplace_back(row, std::move(text));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.name, a.second.type, a.first) <
           std::tie(b.second.name, b.second.type, b.first);
  });
  return rows;
}

void list_program(const shown_program& p, bool all) {
  table rows({{"callable", table::align::left},
              {"kind", table::align::left},
              {"signature", table::align::left},
              {"layout", table::align::left},
              {"key"}});
  const auto shown = sorted_rows(p.table, all);
  for (const auto& [row, c] : shown)
    rows.add_row({c.name, c.kind, c.type, layout_text(c), key_text(row)});
  std::string text;
  if (!shown.empty()) text = rows.text() + '\n';
  const std::size_t hidden = p.table.rows.size() - function_registry::first_index - shown.size();
  text +=
      fmt::format("{}: {} callable{}{}, {}\n", p.name, shown.size(), shown.size() == 1 ? "" : "s",
                  hidden == 0 ? "" : fmt::format(" and {} of farcall's own (--all)", hidden),
                  p.table.rows.front().first);
  print(text);
}

/// A difference to print, and the description of its callable. The description is from the first
/// program if the callable is there, and otherwise from the second.
struct shown_difference {
  callable_description callable;
  const table_difference* what;
};

std::vector<shown_difference> sorted_differences(const table_comparison& found,
                                                 const shown_program& first,
                                                 const shown_program& second, bool all) {
  std::vector<shown_difference> shown;
  for (const table_difference& d : found.differences) {
    callable_description c =
        d.first != 0 ? text_of(first.table, d.first) : text_of(second.table, d.second);
    if (all || !c.is_library) shown.push_back({std::move(c), &d});
  }
  std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
    return std::tie(a.callable.name, a.callable.type, a.what->first, a.what->second) <
           std::tie(b.callable.name, b.callable.type, b.what->first, b.what->second);
  });
  return shown;
}

std::string summary_of(const table_comparison& found, std::size_t different) {
  if (found.is_same_table) {
    return fmt::format("All {} callables are the same in both, with the same keys.\n",
                       found.matching);
  }
  if (different == 0) return fmt::format("All {} callables match.\n", found.matching);
  return fmt::format("{} callables match, {} do not.\n", found.matching, different);
}

void list_differences(const std::vector<shown_difference>& shown, const table_comparison& found,
                      const std::pair<std::string, std::string>& names) {
  table rows({{"callable", table::align::left},
              {"kind", table::align::left},
              {names.first},
              {names.second},
              {"why", table::align::left}});
  for (const shown_difference& d : shown) {
    rows.add_row({d.callable.name, d.callable.kind, key_text(d.what->first),
                  key_text(d.what->second), d.what->why});
  }
  print((shown.empty() ? "" : rows.text() + '\n') + summary_of(found, shown.size()));
}

json document_of(const shown_program& p, bool all) {
  json callables = json::array();
  for (const auto& [row, c] : sorted_rows(p.table, all)) {
    callables.push_back(json{{"key", key_of(row)},
                             {"name", c.name},
                             {"kind", c.kind},
                             {"signature", c.type},
                             {"layout", c.layout},
                             {"contents", c.contents},
                             {"compiler", c.compiler},
                             {"file", c.file},
                             {"mangled", p.table.rows[row].first}});
  }
  return {{"program", p.name},
          {"build", p.table.build},
          {"digest", fmt::format("{:016x}", p.table.digest)},
          {"library", p.table.rows.front().first},
          {"callables", std::move(callables)}};
}

json key_or_null(std::uint32_t row) { return row == 0 ? json() : json(key_of(row)); }

int list_functions(const function_options& options, const std::vector<std::string>& names) {
  if (names.empty() || names.size() > 2) {
    throw usage_problem("give one program whose functions are to be listed, or two that are to be "
                        "compared: farcall functions ./app [./other]");
  }
  std::vector<shown_program> programs;
  for (const std::string& name : names) {
    programs.push_back(
        {name, read_program_table(name, std::chrono::milliseconds(options.start_timeout_ms))});
  }
  json document{{"programs", json::array()}};
  if (options.json) {
    json described = json::array();
    for (const shown_program& p : programs)
      described.push_back(document_of(p, options.all));
    document["programs"] = std::move(described);
  }
  if (programs.size() == 1) {
    if (options.json) {
      print(document.dump(2) + '\n');
    } else {
      list_program(programs.front(), options.all);
    }
    return 0;
  }
  const shown_program& first = programs[0];
  const shown_program& second = programs[1];
  const auto shorter = short_names(first, second);
  const table_comparison found =
      compare_tables(first.table, second.table, shorter.first, shorter.second);
  const auto shown = sorted_differences(found, first, second, options.all);
  if (options.json) {
    json differences = json::array();
    for (const shown_difference& d : shown) {
      differences.push_back(json{{"name", d.callable.name},
                                 {"first", key_or_null(d.what->first)},
                                 {"second", key_or_null(d.what->second)},
                                 {"why", d.what->why}});
    }
    document["matching"] = found.matching;
    document["differences"] = std::move(differences);
    print(document.dump(2) + '\n');
  } else {
    list_differences(shown, found, shorter);
  }
  return shown.empty() ? 0 : tables_differ;
}

} // namespace

command command_functions() {
  auto options = std::make_shared<function_options>();
  function_options& o = *options;
  return {
      .name = "functions",
      .text = "List the functions of a program that others can call, or say what does not match "
              "between two programs",
      .usage = {"[OPTIONS] PROGRAM [OTHER]"},
      .footer =
          "Starts each program as a target, asks it for its table, and ends it; what main() does "
          "before it makes its job is done. \"exec:COMMAND LINE\" in place of a program starts "
          "what needs arguments; a program of another instruction set is started by qemu-user, "
          "where that is on the PATH. Layouts are size:alignment of the result and of each "
          "argument, {...} around parts, \"own\" for a packer. With two programs, only what one "
          "cannot call in the other is listed, and the exit status is 1 where there is something.",
      .options = {{.name = "--all", .value = &o.all, .text = "farcall's own callables, too"},
                  {.name = "--start-timeout-ms",
                   .value = &o.start_timeout_ms,
                   .takes = "MS",
                   .text = "How long a program may take until it joins (default 10000)",
                   .range = {{1, 3'600'000}}},
                  {.name = "--json", .value = &o.json, .text = "For programs: JSON"}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) {
        return list_functions(*options, rest);
      }};
}

} // namespace farcall::tool
