// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/settings_table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// Reads the user's settings from the environment, and from the command line if the program passes
/// it. The environment must not change while this object is used.
class settings_source {
 public:
  /// Reads the environment only. If the program has set a setting itself, the value in the
  /// environment does not count.
  settings_source() = default;

  /// Reads the options that begin with --farcall- from the command line, up to "--", and removes
  /// them from it. Such an option takes precedence over the environment, and the environment takes
  /// precedence over a value that the program has set. Throws setting_error for an option that is
  /// unknown or has no value. Stops reading at --farcall-help.
  settings_source(int& argc, char** argv);

  [[nodiscard]] bool asks_for_help() const noexcept { return asks_for_help_; }

  /// Checks and returns the value that the user has given for a setting. Returns nullopt if the
  /// user has given no value, or if the program's own value takes precedence. `is_set` is true if
  /// the program has set its own value. Throws setting_error.
  [[nodiscard]] std::optional<std::string> text(const setting& s, bool is_set = false) const;
  [[nodiscard]] std::optional<std::uint64_t> number(const setting& s, bool is_set = false) const;
  /// Returns the name of the option or variable by which the user has given the setting. A caller
  /// that finds an error in the value names it in the error's text.
  [[nodiscard]] std::optional<std::string> given_by(const setting& s, bool is_set = false) const;

 private:
  struct found {
    std::string what; ///< name of the option or variable
    std::string value;
  };
  [[nodiscard]] std::optional<found> find(const setting& s, bool is_set) const;

  std::vector<std::pair<const setting*, std::string>> given_; ///< last one first
  bool user_decides_ = false;
  bool asks_for_help_ = false;
};

} // namespace farcall
