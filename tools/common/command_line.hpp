#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::tool {

/// An option of a command, or an argument without dashes.
struct option {
  using place =
      std::variant<bool*, int*, unsigned*, std::size_t*, std::string*, std::optional<int>*,
                   std::optional<std::size_t>*, std::optional<std::string>*,
                   std::vector<std::string>*>; ///< of the last: may be given several times

  std::string name; ///< "--batches", or "FILE" for an argument
  place value;      ///< is set when the option is given; outlives the command
  std::string text; ///< for --help
  std::optional<std::pair<std::size_t, std::size_t>> range = {}; ///< of a number
  std::vector<std::string> choices = {};                         ///< empty: any text
  std::string excludes = {};                                     ///< an option named before
  bool shows_default = false;                                    ///< in --help
  bool is_required = false;
  bool is_size = false; ///< takes a unit: 64MiB
  /// Of a text: what it is where the option is given without a value; a value comes behind "="
  /// then.
  std::string otherwise = {};
};

/// A command of a program, or the program itself: what it takes and what it does.
///
/// It runs after the whole command line has been read, so that a mistake at its end is found before
/// anything starts.
struct command {
  /// The words that are none of its options. `after_options` takes all from the first one on, or
  /// behind "--"; `everything` takes options too, --help included.
  enum class rest { refused, after_options, everything };

  std::string name;
  std::string text;
  std::string footer = {}; ///< below --help, also of the commands below it
  std::vector<option> options = {};
  std::vector<command> commands = {}; ///< of which one must be named, if there are any
  rest takes_rest = rest::refused;
  /// The result is the exit status.
  std::function<int(const std::vector<std::string>& rest)> run = {};
};

/// Reads the command line and runs the command that it names. Returns the exit status: the status
/// of the command, 2 when the command line or a setting asks for something that cannot be, 1 when
/// the command throws anything else. Messages go to standard error.
///
/// `version` is what --version prints; messages begin with the first word of the program's name.
/// Sets SIGCHLD to SIG_DFL, whatever the starting program has set.
[[nodiscard]] int run_command_line(const command& program, const std::string& version, int argc,
                                   const char* const* argv);

} // namespace farcall::tool
