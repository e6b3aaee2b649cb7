// SPDX-License-Identifier: Apache-2.0
#include "table_difference.hpp"

#include <farcall/call/callable_description.hpp>
#include <farcall/call/entry.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

using rows_of_table = std::vector<std::pair<std::string, std::string>>;

/// One of the two programs that are compared, with the rows of its table and its name.
struct side {
  const rows_of_table& rows;
  const std::string& name;
};

std::string_view base_of(std::string_view name) { return name.substr(0, name.find('@')); }

bool is_twice(const rows_of_table& rows, const std::pair<std::string, std::string>& row) {
  return std::count(rows.begin() + function_registry::first_index, rows.end(), row) > 1;
}

/// Returns the index of the first row for which `is` returns true. Returns 0 if there is none; row
/// 0 is no callable.
template <class Is>
std::uint32_t find_row(const rows_of_table& rows, const Is& is) {
  for (std::uint32_t i = function_registry::first_index; i < rows.size(); ++i) {
    if (is(rows[i])) return i;
  }
  return 0;
}

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part))
    text.erase(at, part.size());
  return text;
}

/// Returns a layout without the sizes of mantissas, which follow the letter "m" of long doubles. So
/// two layouts that differ in these sizes alone become equal.
std::string without_mantissas(std::string_view layout) {
  std::string out;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] != 'm') {
      out += layout[i];
      continue;
    }
    while (i + 1 < layout.size() && layout[i + 1] >= '0' && layout[i + 1] <= '9')
      ++i;
  }
  return out;
}

/// Returns "8:8 in ./a, 4:4 in ./b".
std::string both(const std::string& first, const side& here, const std::string& second,
                 const side& there) {
  const auto text = [](const std::string& part) { return part.empty() ? "nothing" : part; };
  return fmt::format("{} in {}, {} in {}", text(first), here.name, text(second), there.name);
}

std::string why_layouts_differ(const std::string& first, const side& here,
                               const std::string& second, const side& there) {
  constexpr std::string_view mark = "(libc++)";
  if (without(first, mark) == without(second, mark)) {
    return "may hold what the two standard libraries lay out differently (fc::has_fixed_layout "
           "vouches for a class that does not): " +
           both(first, here, second, there);
  }
  if (without_mantissas(first) == without_mantissas(second))
    return "long double has two formats: " + both(first, here, second, there);
  return both(first, here, second, there);
}

std::string why_compilers_differ(const callable_description& first, const side& here,
                                 const callable_description& second, const side& there) {
  return "other compiler, which numbers lambdas otherwise: " +
         both(first.compiler, here, second.compiler, there) +
         "; make it a function or a named object";
}

/// Returns the reason why two callables with the same name do not match: their compilers,
/// signatures, layouts or contents differ.
std::string why_signatures_differ(const callable_description& first, const side& here,
                                  const callable_description& second, const side& there) {
  if (first.compiler != second.compiler) return why_compilers_differ(first, here, second, there);
  if (first.type != second.type)
    return "other signature: " + both(first.type, here, second.type, there);
  if (first.layout != second.layout)
    return "other layout: " + why_layouts_differ(first.layout, here, second.layout, there);
  return "other contents: " + why_layouts_differ(first.contents, here, second.contents, there);
}

table_difference explain(const side& here, const side& there, std::uint32_t row) {
  const auto& [name, signature] = here.rows[row];
  if (is_twice(here.rows, here.rows[row]))
    return {row, 0, fmt::format("there are two in {}; give them different names", here.name)};
  const auto same = find_row(there.rows, [&](const auto& r) { return r == here.rows[row]; });
  if (same != 0 && is_twice(there.rows, there.rows[same]))
    return {row, same, fmt::format("there are two in {}; give them different names", there.name)};
  if (name.find("$_") != std::string::npos) {
    return {row, same,
            "clang numbers lambdas by file, and the number means nothing in another "
            "program; make it a function or a named object"};
  }
  const callable_description text = describe_callable(name, signature);
  if (const auto at = find_row(there.rows, [&](const auto& r) { return r.first == name; }); at != 0)
    return {
        row, at,
        why_signatures_differ(text, here, describe_callable(name, there.rows[at].second), there)};
  const auto other_file = find_row(there.rows, [&, base = base_of(name)](const auto& r) {
    return base_of(r.first) == base && r.second == signature;
  });
  if (other_file != 0) {
    const std::string file = describe_callable(there.rows[other_file].first, signature).file;
    return {row, other_file,
            "only one file knows it, and it is another one (or a build, where a program has no "
            "symbols): " +
                both(text.file, here, file, there)};
  }
  if (here.rows.front().first != there.rows.front().first) {
    const auto alike = find_row(there.rows, [&](const auto& r) {
      const callable_description other = describe_callable(r.first, r.second);
      return other.name == text.name && other.type == text.type;
    });
    if (alike != 0) {
      return {row, alike,
              fmt::format("other standard library: its types have other names in {} than in {}",
                          there.rows.front().first, here.rows.front().first)};
    }
  }
  if (text.kind == "lambda") {
    for (std::uint32_t i = function_registry::first_index; i < there.rows.size(); ++i) {
      const callable_description other =
          describe_callable(there.rows[i].first, there.rows[i].second);
      if (other.kind == "lambda" && other.compiler != text.compiler)
        return {row, 0, why_compilers_differ(text, here, other, there)};
    }
  }
  return {row, 0, fmt::format("missing in {}", there.name)};
}

} // namespace

table_comparison compare_tables(const detail::program_table& first,
                                const detail::program_table& second, const std::string& first_name,
                                const std::string& second_name) {
  table_comparison made;
  const side one{first.rows, first_name};
  const side other{second.rows, second_name};
  if (first.digest == second.digest && first.rows.size() == second.rows.size()) {
    made.is_same_table = true;
    made.matching = first.rows.size() - function_registry::first_index;
    return made;
  }
  const auto there = match_tables(first.rows, second.rows);
  std::vector<bool> is_named(second.rows.size());
  for (std::uint32_t row = function_registry::first_index; row < first.rows.size(); ++row) {
    if (there[row] != 0) {
      is_named[there[row]] = true;
      ++made.matching;
      continue;
    }
    made.differences.push_back(explain(one, other, row));
    is_named[made.differences.back().second] = true;
  }
  for (std::uint32_t row = function_registry::first_index; row < second.rows.size(); ++row) {
    if (is_named[row]) continue;
    table_difference d = explain(other, one, row);
    std::swap(d.first, d.second);
    made.differences.push_back(std::move(d));
  }
  return made;
}

} // namespace farcall::tool
