// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/command_words.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <set>

namespace farcall {
namespace {

constexpr std::string_view exec_prefix = "exec:";

using table = std::span<const transport_entry>;

std::string examples(table rows) {
  std::string text;
  for (const transport_entry& row : rows) {
    if (!row.example.empty()) text += row.example + ", ";
  }
  return text;
}

std::string schemes(table rows) {
  std::string text;
  for (const transport_entry& row : rows) {
    if (row.example.empty()) continue;
    text += (text.empty() ? "" : ", ") + row.scheme;
    for (const std::string& other : row.other_schemes)
      text += ", " + other;
  }
  return text;
}

[[noreturn]] void refuse(const std::string& piece, const std::string& why, table rows) {
  throw setting_error("target \"" + piece + "\": " + why + "; targets look like " + examples(rows) +
                      "or exec:qemu-aarch64 ./app?count=2, separated by commas");
}

/// Splits the list of targets at its commas. In a command line, commas between quotes do not split.
/// In other URLs an apostrophe is no quote, because the path in a URL of shm may contain an
/// apostrophe.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  for (;;) {
    std::size_t end = text.find(',');
    if (text.starts_with(exec_prefix)) {
      end = find_unquoted(text, 0, ",?");
      if (end < text.size() && text[end] == '?') end = text.find(',', end);
    }
    pieces.emplace_back(text.substr(0, end));
    if (end >= text.size()) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words_of(const std::string& piece, std::string_view command, table rows) {
  std::vector<std::string> words;
  try {
    words = command_words(command);
  } catch (const setting_error& e) {
    refuse(piece, e.what(), rows);
  }
  if (words.empty() || words.front().empty()) refuse(piece, "exec: needs a command line", rows);
  return words;
}

/// Returns the options that a target of this scheme may have in addition to workers= and name=. A
/// target with a command line has only cpu= and count=, and no option for its program.
std::vector<url_option> options_of(const transport_entry& row, bool is_command) {
  return is_command ? std::vector{cpu_option(), count_option()} : row.options;
}

/// Checks the value of an option; throws setting_error if it is not allowed.
void check(const url_option& o, const std::string& value, const std::string& what,
           const std::string& piece, table rows) {
  if (!o.only.empty()) {
    if (value != o.only) refuse(piece, o.name + "= has one value, " + o.only, rows);
    return;
  }
  if (parse_number(value, what, o.low, o.high) % o.multiple_of != 0) {
    refuse(piece, o.name + "= is a multiple of " + std::to_string(o.multiple_of), rows);
  }
}

/// Reads the options of a URL into `url`, and the number of targets, which may be one of the
/// options, into `count`.
void take_options(target_url& url, std::uint64_t& count, const std::string& piece,
                  std::string_view query, const transport_entry& row, table rows) {
  const std::vector<url_option> options = options_of(row, !url.command.empty());
  std::set<std::string> given;
  for (const auto& [key, value] : parse_query(query)) {
    if (!given.insert(key).second) refuse(piece, "option \"" + key + "\" is given twice", rows);
    const std::string what = key + " in \"" + piece + "\"";
    if (key == "workers") {
      url.workers = static_cast<std::uint32_t>(parse_number(value, what, 1, row.workers_at_most));
      continue;
    }
    if (key == "name") {
      if (value.empty() || value.size() > 100)
        refuse(piece, "name= needs 1 to 100 characters", rows);
      url.name = value;
      continue;
    }
    const auto o = std::find_if(options.begin(), options.end(),
                                [&](const url_option& known) { return known.name == key; });
    if (o == options.end()) {
      std::string known;
      for (const url_option& other : options) {
        if (other.refusal.empty()) known += other.name + ", ";
      }
      refuse(piece, "unknown option \"" + key + "\" (known: workers, " + known + "name)", rows);
    }
    if (!o->refusal.empty()) refuse(piece, o->refusal, rows);
    if (key == program_option().name) {
      if (value.empty()) refuse(piece, "program= needs a path", rows);
      url.program = value;
      continue;
    }
    check(*o, value, what, piece, rows);
    if (key == cpu_option().name) {
      url.cpu = static_cast<unsigned>(parse_number(value, what, o->low, o->high));
    } else if (key == count_option().name) {
      count = parse_number(value, what, o->low, o->high);
    } else {
      url.options[key] = value;
    }
  }
}

const transport_entry& row_of(const std::string& piece, const std::string& scheme, table rows) {
  if (scheme.empty()) refuse(piece, "it has no transport", rows);
  const auto row = std::ranges::find_if(rows, [&](const transport_entry& r) {
    return !r.example.empty() &&
           (r.scheme == scheme ||
            std::ranges::find(r.other_schemes, scheme) != r.other_schemes.end());
  });
  if (row == rows.end()) {
    refuse(piece,
           "this build has no transport \"" + scheme + "\" (it has " + schemes(rows) + " and exec)",
           rows);
  }
  return *row;
}

/// Returns the row whose transport serves targets with command lines. It is the first row whose
/// targets are child processes of the host.
const transport_entry& row_of_commands(const std::string& piece, table rows) {
  for (const transport_entry& row : rows) {
    if (!row.example.empty() && row.make && !row.make_launcher) return row;
  }
  refuse(piece, "this build has no transport between processes of one machine", rows);
}

std::vector<target_url> parse_one(const std::string& piece, table rows) {
  if (piece.empty()) refuse(piece, "an entry of the list is empty", rows);
  target_url url;
  std::uint64_t count = 1;
  std::size_t question = piece.find('?');
  const transport_entry* row = nullptr;
  if (piece.starts_with(exec_prefix)) {
    question = find_unquoted(piece, 0, "?");
    row = &row_of_commands(piece, rows);
    url.command = words_of(
        piece, std::string_view(piece).substr(0, question).substr(exec_prefix.size()), rows);
  } else {
    const std::string_view place = std::string_view(piece).substr(0, question);
    row = &row_of(piece, std::string(place.substr(0, place.find(':'))), rows);
    url.place = place;
    url.workers = row->workers;
    if (row->read_place) {
      count = row->read_place(place, "\"" + piece + "\"", url);
    } else if (place != row->scheme) {
      refuse(piece, "nothing follows \"" + row->scheme + "\"", rows);
    }
  }
  url.scheme = row->scheme;
  if (question < piece.size()) {
    take_options(url, count, piece, std::string_view(piece).substr(question + 1), *row, rows);
  }
  std::vector<target_url> targets;
  for (std::uint64_t i = 0; i < count; ++i) {
    targets.push_back(url);
    if (url.cpu) targets.back().cpu = *url.cpu + static_cast<unsigned>(i);
    if (!url.name.empty() && count > 1) targets.back().name += "-" + std::to_string(i + 1);
  }
  return targets;
}

} // namespace

std::optional<std::uint32_t> target_url::number(std::string_view option) const {
  const auto at = options.find(option);
  if (at == options.end()) return std::nullopt;
  return static_cast<std::uint32_t>(parse_number(at->second, at->first + "=", 0, UINT32_MAX));
}

std::vector<target_url> parse_targets(std::string_view text, table rows) {
  std::vector<target_url> targets;
  for (const std::string& piece : pieces_of(text)) {
    for (target_url& url : parse_one(piece, rows))
      targets.push_back(std::move(url));
  }
  if (targets.size() > max_targets) {
    throw setting_error("\"" + std::string(text) + "\" names " + std::to_string(targets.size()) +
                        " targets; a job has at most " + std::to_string(max_targets));
  }
  return targets;
}

std::vector<target_url> parse_targets(std::string_view text) {
  return parse_targets(text, transports());
}

} // namespace farcall
