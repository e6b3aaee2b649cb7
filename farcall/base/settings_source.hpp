#pragma once

#include <farcall/base/settings_table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// What the user says about settings: by the environment, and by the command line where the program
/// hands it over. Not while other threads change the environment.
class settings_source {
 public:
  /// The environment only. It fills in what the program leaves open.
  settings_source() = default;

  /// Takes the options that begin with --farcall- out of the command line, up to "--". They come
  /// first, then the environment, then the program. Throws setting_error for an option that is
  /// unknown or has no value. Reads no further than --farcall-help.
  settings_source(int& argc, char** argv);

  [[nodiscard]] bool asks_for_help() const noexcept { return asks_for_help_; }

  /// What the user says about a setting, checked; nothing where the program decides. `is_set`: the
  /// program says something itself. Throws setting_error.
  [[nodiscard]] std::optional<std::string> text(const setting& s, bool is_set = false) const;
  [[nodiscard]] std::optional<std::uint64_t> number(const setting& s, bool is_set = false) const;
  /// The option or variable by which the user says it, for errors in what only others can check.
  [[nodiscard]] std::optional<std::string> given_by(const setting& s, bool is_set = false) const;

 private:
  struct found {
    std::string what; ///< the option or variable
    std::string value;
  };
  [[nodiscard]] std::optional<found> find(const setting& s, bool is_set) const;

  std::vector<std::pair<const setting*, std::string>> given_; ///< the last one first
  bool user_decides_ = false;
  bool asks_for_help_ = false;
};

} // namespace farcall
