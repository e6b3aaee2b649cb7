// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/settings_table.hpp>

#include <string>

namespace farcall::test {

/// Returns the line of docs/settings.md for a row.
inline std::string line_in_docs(const setting& s) {
  const auto code = [](const std::string& text) { return "`" + text + "`"; };
  const bool has_variable = s.source != setting_source::command_line;
  const bool has_option = s.source != setting_source::environment;
  std::string line = "| " + (has_variable ? code(settings::variable_of(s)) : "–");
  line += " | " + (has_option ? code(settings::option_of(s)) : "–");
  line += " | " + (s.field.empty() ? "–" : code(std::string(s.field)));
  line += " | " + settings::accepted_by(s) + " | " + settings::default_of(s) + " | ";
  line += s.reach == setting_reach::forwarded   ? "forwarded"
          : s.reach == setting_reach::inherited ? "inherited"
                                                : "no";
  return line + " | " + std::string(s.text) + " |";
}

} // namespace farcall::test
