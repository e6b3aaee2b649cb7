// SPDX-License-Identifier: Apache-2.0
#include "command.hpp"
#include "table.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Returns the value of a place as text. Returns an empty text if the place has no value.
struct text_of_value {
  std::string operator()(const std::vector<std::string>* /*list*/) const { return {}; }
  template <class T>
  std::string operator()(const std::optional<T>* value) const {
    return *value ? fmt::format("{}", **value) : "";
  }
  template <class T>
  std::string operator()(const T* value) const {
    return fmt::format("{}", *value);
  }
};

bool is_number(const option& o) {
  return std::visit(
      [](const auto* value) {
        using type = std::remove_cvref_t<decltype(*value)>;
        return !std::is_same_v<type, bool> && !std::is_same_v<type, std::string> &&
               !std::is_same_v<type, std::optional<std::string>> &&
               !std::is_same_v<type, std::vector<std::string>>;
      },
      o.value);
}

std::string number_text(const option& o, std::size_t number) {
  return o.is_size ? format_bytes(number) : std::to_string(number);
}

} // namespace

std::string name_of(const command_path& path) {
  std::string name;
  for (const command* const c : path)
    name += (name.empty() ? "" : " ") + c->name;
  return name;
}

std::vector<std::string> usage_of(const command& described) {
  if (!described.usage.empty()) return described.usage;
  std::string words = "[OPTIONS]";
  for (const option& o : described.options) {
    if (is_argument(o) && !o.is_internal)
      words += o.is_required ? " " + o.name : " [" + o.name + "]";
  }
  if (!described.commands.empty()) words += " COMMAND";
  return {words};
}

std::vector<const command*> visible_commands(const command& described) {
  std::vector<const command*> all;
  for (const command& c : described.commands) {
    if (!c.is_internal) all.push_back(&c);
  }
  return all;
}

std::vector<option> visible_options(const command& described) {
  std::vector<option> all;
  for (const option& o : described.options) {
    if (!o.is_internal) all.push_back(o);
  }
  return all;
}

bool is_argument(const option& o) { return !o.name.starts_with('-'); }

std::vector<std::string> names_of(const option& o) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= o.name.size();) {
    const std::size_t end = std::min(o.name.find(',', at), o.name.size());
    names.push_back(o.name.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string value_name(const option& o) {
  if (std::holds_alternative<bool*>(o.value)) return {};
  if (!o.takes.empty()) return o.takes;
  if (o.is_size) return "SIZE";
  if (is_number(o)) return "NUMBER";
  return o.choices.empty() ? "TEXT" : "WORD";
}

std::string form_of(const option& o) {
  if (is_argument(o)) return o.name;
  std::string text;
  for (const std::string& name : names_of(o))
    text += (text.empty() ? "" : ", ") + name;
  const std::string value = value_name(o);
  if (!value.empty()) text += o.otherwise.empty() ? " " + value : "[=" + value + "]";
  return text;
}

std::string full_text(const option& o) {
  std::string limits;
  if (!o.choices.empty()) {
    limits = alternatives(o.choices);
  } else if (o.range) {
    const auto [least, most] = *o.range;
    // A limit of more digits only keeps the number within its type.
    constexpr std::size_t most_that_is_shown = 999'999'999;
    limits = o.is_size || most <= most_that_is_shown
                 ? fmt::format("{} to {}", number_text(o, least), number_text(o, most))
                 : fmt::format("from {} on", number_text(o, least));
  }
  if (!o.default_value.empty())
    limits += fmt::format("{}default {}", limits.empty() ? "" : "; ", o.default_value);
  if (limits.empty()) return o.text;
  return o.text.ends_with(')') ? fmt::format("{}; {})", o.text.substr(0, o.text.size() - 1), limits)
                               : fmt::format("{} ({})", o.text, limits);
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (std::size_t i = 1; i < words.size(); ++i)
    text += (i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

command documented(const command& program, bool has_version) {
  static bool unused = false;
  command copy = program;
  for (option& o : copy.options) {
    if (o.shows_default) o.default_value = std::visit(text_of_value{}, o.value);
  }
  if (has_version) {
    copy.options.push_back(
        {.name = "--version", .value = &unused, .text = "Print the version, and end"});
  }
  if (copy.takes_rest != command::rest::everything) {
    copy.options.push_back(
        {.name = "-h,--help", .value = &unused, .text = "Print this help, and end"});
  }
  for (command& below : copy.commands)
    below = documented(below, false);
  return copy;
}

} // namespace farcall::tool
