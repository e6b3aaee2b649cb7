// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::tool {

/// An option of a command, such as "--batches". It may also be an argument, which has a position
/// instead of dashes.
struct option {
  using place =
      std::variant<bool*, int*, unsigned*, std::size_t*, std::string*, std::optional<int>*,
                   std::optional<std::size_t>*, std::optional<std::string>*,
                   /// For an option that may be given several times. The vector gets all of its
                   /// values.
                   std::vector<std::string>*>;

  std::string name; ///< "--batches" for an option, or "FILE" for an argument
  place value;      ///< variable that gets the option's value; it must outlive the command
  std::string text; ///< for --help
  std::optional<std::pair<std::size_t, std::size_t>> range = {}; ///< limits of a number
  std::vector<std::string> choices = {};                         ///< if empty, any text
  std::string excludes = {};                                     ///< an option declared before
  bool shows_default = false;                                    ///< shown in --help
  bool is_required = false;
  bool is_size = false; ///< true for a number with an optional unit, such as 64MiB
  /// If not empty, the option's value may be left out, and this text is then the value. A value
  /// that the user gives must then be written as "=VALUE".
  std::string otherwise = {};
};

/// A command of a program, or the program itself, with its options and its action.
///
/// The action runs after the whole command line has been parsed, so that nothing has been started
/// if there is an error at the end of the line.
struct command {
  /// Use of words on the command line that are no options of the command. With `refused`, they are
  /// errors. With `after_options`, the first such word and all words after it, or after "--", are
  /// passed to run(). With `everything`, options are passed on too, even --help.
  enum class rest { refused, after_options, everything };

  std::string name;
  std::string text;
  std::string footer = {}; ///< text below the output of --help, also for its subcommands
  std::vector<option> options = {};
  /// Subcommands. If there are any, the command line must name one of them.
  std::vector<command> commands = {};
  rest takes_rest = rest::refused;
  /// Returns the exit status.
  std::function<int(const std::vector<std::string>& rest)> run = {};
};

/// Parses the command line and runs the command that it names. Returns the command's exit status if
/// the command returns. Returns 2 if the command line or a setting is invalid, and 1 if the command
/// throws any other exception. Messages are printed to standard error.
///
/// `version` is the text that --version prints. Messages begin with the first word of the program's
/// name. Sets SIGCHLD to SIG_DFL, even if the program was started with another action.
[[nodiscard]] int run_command_line(const command& program, const std::string& version, int argc,
                                   const char* const* argv);

} // namespace farcall::tool
