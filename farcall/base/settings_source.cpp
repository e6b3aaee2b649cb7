// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>

#include <string_view>

namespace farcall {
namespace {

constexpr std::string_view prefix = "--farcall-";

const setting& setting_of(const std::string& option) {
  const std::vector<const setting*> rows = settings::all();
  std::vector<std::string_view> names{"help"};
  for (const setting* s : rows) {
    if (s->source == setting_source::environment) continue;
    if (settings::option_of(*s) == option) return *s;
    names.push_back(s->name);
  }
  const auto best = settings::nearest(std::string_view(option).substr(prefix.size()), names);
  throw setting_error("unknown option " + option + "; " +
                      (best.empty()
                           ? std::string()
                           : "did you mean " + std::string(prefix) + std::string(best) + "? ") +
                      "--farcall-help lists them");
}

} // namespace

settings_source::settings_source(int& argc, char** argv) : user_decides_(true) {
  int kept = 1;
  bool ours_may_follow = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    ours_may_follow = ours_may_follow && argument != "--";
    if (!ours_may_follow || !argument.starts_with(prefix)) {
      argv[kept++] = argv[i];
      continue;
    }
    const auto equals = argument.find('=');
    const std::string option = argument.substr(0, equals);
    if (option == "--farcall-help") {
      asks_for_help_ = true;
      return;
    }
    const setting& s = setting_of(option);
    if (equals == std::string::npos && i + 1 == argc)
      throw setting_error("option " + option + " needs a value: " + option + "=…");
    std::string value = equals == std::string::npos ? argv[++i] : argument.substr(equals + 1);
    settings::check(s, option, value);
    given_.emplace(given_.begin(), &s, std::move(value));
  }
  argv[kept] = nullptr;
  argc = kept;
}

std::optional<std::string> settings_source::text(const setting& s, bool is_set) const {
  auto f = find(s, is_set);
  if (!f) return std::nullopt;
  settings::check(s, f->what, f->value);
  return std::move(f->value);
}

std::optional<std::uint64_t> settings_source::number(const setting& s, bool is_set) const {
  const auto f = find(s, is_set);
  if (!f) return std::nullopt;
  return settings::number_of(s, f->what, f->value);
}

std::optional<std::string> settings_source::given_by(const setting& s, bool is_set) const {
  auto f = find(s, is_set);
  return f ? std::optional(std::move(f->what)) : std::nullopt;
}

std::optional<settings_source::found> settings_source::find(const setting& s, bool is_set) const {
  for (const auto& [row, value] : given_) {
    if (row->name == s.name) return found{settings::option_of(s), value};
  }
  if (s.source == setting_source::command_line || (is_set && !user_decides_)) return std::nullopt;
  std::string variable = settings::variable_of(s);
  auto value = environment(variable.c_str());
  if (!value) return std::nullopt;
  return found{std::move(variable), std::move(*value)};
}

} // namespace farcall
