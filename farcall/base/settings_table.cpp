// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/text.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <numeric>
#include <utility>

#include <unistd.h>

namespace farcall::settings {
namespace {

constexpr std::string_view variable_prefix = "FARCALL_";
constexpr std::string_view option_prefix = "--farcall-";

struct table {
  std::mutex mutex;
  std::vector<const setting*> rows;

  static table& instance() {
    // The list is never destroyed, because a job may be made, and log warnings, while static
    // objects are destroyed.
    static auto* const t = [] {
      auto* const made = new table;
      for (const setting& s : core)
        made->rows.push_back(&s);
      return made;
    }();
    return *t;
  }
};

[[noreturn]] void refuse(const setting& s, const std::string& what, std::string_view value) {
  throw setting_error(what + " is \"" + valid_text(value) + "\"; give " + accepted_by(s));
}

/// Returns the edit distance: the number of letters to insert, delete, replace, or swap with a
/// neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> next(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({last[j] + 1, next[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, std::move(next));
  }
  return last.back();
}

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

std::string unknown_text(const std::string& name, const std::vector<const setting*>& rows) {
  std::vector<std::string> variables;
  for (const setting* s : rows) {
    if (s->source != setting_source::command_line) {
      variables.push_back(variable_of(*s));
    } else if (variable_of(*s) == name) {
      return name + " is not read from the environment; give " + option_of(*s) + "=" +
             std::string(s->takes);
    }
  }
  std::vector<std::string_view> names;
  for (const std::string& v : variables)
    names.push_back(std::string_view(v).substr(variable_prefix.size()));
  const auto best = nearest(std::string_view(name).substr(variable_prefix.size()), names);
  return name + " is not a setting; " +
         (best.empty() ? "docs/settings.md lists them"
                       : "did you mean " + std::string(variable_prefix) + std::string(best) + "?");
}

} // namespace

void add(std::span<const setting> rows) {
  table& t = table::instance();
  const std::lock_guard guard(t.mutex);
  for (const setting& s : rows) {
    const bool is_there = std::any_of(t.rows.begin(), t.rows.end(),
                                      [&](const setting* r) { return r->name == s.name; });
    if (!is_there) t.rows.push_back(&s);
  }
}

std::vector<const setting*> all() {
  table& t = table::instance();
  const std::lock_guard guard(t.mutex);
  return t.rows;
}

std::string variable_of(const setting& s) {
  std::string text(variable_prefix);
  for (const char c : s.name)
    text += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string option_of(const setting& s) { return std::string(option_prefix) + std::string(s.name); }

std::string accepted_by(const setting& s) {
  switch (s.kind) {
  case setting_kind::number:
  case setting_kind::power_of_two:
    return std::string(s.kind == setting_kind::number ? "a whole number" : "a power of two") +
           " from " + std::to_string(s.low) + " to " + std::to_string(s.high) + " (" +
           std::string(s.takes) + ")";
  case setting_kind::choice: {
    const std::vector<std::string> choices = split(s.takes, '|');
    std::string text;
    for (std::size_t i = 0; i < choices.size(); ++i)
      text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
    return text;
  }
  case setting_kind::text:
    break;
  }
  return std::string(s.takes);
}

std::string default_of(const setting& s) {
  return s.otherwise.empty() ? std::to_string(s.number) : std::string(s.otherwise);
}

void check(const setting& s, const std::string& what, std::string_view value) {
  if (value.empty()) throw setting_error(what + " has an empty value; give " + accepted_by(s));
  if (s.kind == setting_kind::choice) {
    const std::vector<std::string> choices = split(s.takes, '|');
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) refuse(s, what, value);
  } else if (s.kind != setting_kind::text) {
    (void)number_of(s, what, value);
  }
}

std::uint64_t number_of(const setting& s, const std::string& what, std::string_view value) {
  std::uint64_t number = 0;
  try {
    number = parse_number(value, what, s.low, s.high);
  } catch (const setting_error&) {
    refuse(s, what, value);
  }
  if (s.kind == setting_kind::power_of_two && !std::has_single_bit(number)) refuse(s, what, value);
  return number;
}

std::string help() {
  std::string text =
      "Settings of farcall. The command line comes first, then the environment, then "
      "the program.\n";
  for (const setting* s : all()) {
    const std::string value =
        "=" + (s->kind == setting_kind::text || s->kind == setting_kind::choice
                   ? std::string(s->takes)
                   : std::string("N"));
    std::string line = "  ";
    if (s->source != setting_source::environment) line += option_of(*s) + value;
    if (s->source == setting_source::anywhere) line += "  or  ";
    if (s->source != setting_source::command_line) line += variable_of(*s) + value;
    line += "\n      " + std::string(s->text) + "; ";
    if (s->kind != setting_kind::text && s->kind != setting_kind::choice)
      line += accepted_by(*s) + ", ";
    text += line + "default " + default_of(*s) + "\n";
  }
  return text;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t fewest = 0;
  for (const std::string_view candidate : names) {
    const std::size_t d = distance(name, candidate);
    // Skip the candidate if more than a third of its letters differ, because it is then another
    // word.
    if (3 * d > std::max(name.size(), candidate.size())) continue;
    if (best.empty() || d < fewest) {
      best = candidate;
      fewest = d;
    }
  }
  return best;
}

std::vector<std::string> unknown(const char* const* environment,
                                 std::span<const std::string_view> others) {
  const std::vector<const setting*> rows = all();
  std::vector<std::string> lines;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const auto equals = entry.find('=');
    if (!entry.starts_with(variable_prefix) || equals == std::string_view::npos) continue;
    if (equals + 1 == entry.size()) continue;
    const std::string name(entry.substr(0, equals));
    const bool has_reader =
        std::any_of(rows.begin(), rows.end(),
                    [&](const setting* s) {
                      return s->source != setting_source::command_line && variable_of(*s) == name;
                    }) ||
        std::any_of(others.begin(), others.end(),
                    [&](std::string_view pattern) { return matches(name, pattern); });
    if (!has_reader) lines.push_back(unknown_text(name, rows));
  }
  return lines;
}

void warn_of_unknown(std::span<const std::string_view> others) {
  static std::atomic<bool> has_warned{false};
  // Relaxed, because the flag orders no other memory access.
  if (has_warned.exchange(true, std::memory_order_relaxed)) return;
  for (const std::string& line : unknown(::environ, others))
    log::warning(line);
}

} // namespace farcall::settings
