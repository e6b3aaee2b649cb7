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

  std::string name; ///< "--batches" or "-e,--executable" for an option, or "FILE" for an argument
  place value;      ///< variable that gets the option's value; it must outlive the command
  /// Name of the value in texts for users. FILE, FOLDER and PROGRAM are also completed as such by
  /// shells. If it is empty, the name follows from the type of the value.
  std::string takes = {};
  std::string text; ///< for --help, the manual and the completion of shells
  std::optional<std::pair<std::size_t, std::size_t>> range = {}; ///< limits of a number
  std::vector<std::string> choices = {};                         ///< if empty, any text
  std::string excludes = {};  ///< name of an option, declared before, that cannot be given as well
  bool shows_default = false; ///< shown in --help
  std::string default_value = {}; ///< set by documented()
  bool is_required = false;
  bool is_size = false; ///< true for a number with an optional unit, such as 64MiB
  /// True for an option that farcall itself passes to its commands. Help does not show it.
  bool is_internal = false;
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

  /// A command line, and its effect.
  struct example {
    std::string line;
    std::string text;
  };

  std::string name;
  std::string text; ///< one line, without a full stop
  /// Words behind the command's name, one text for each form of the command. If it is empty, the
  /// words follow from the options.
  std::vector<std::string> usage = {};
  /// Text below the output of --help, also for its subcommands. A line break begins a paragraph.
  std::string footer = {};
  std::vector<example> examples = {};
  std::vector<option> options = {};
  /// Subcommands. If there are any, the command line must name one of them.
  std::vector<command> commands = {};
  rest takes_rest = rest::refused;
  /// True for a command that only farcall itself runs. Help does not show it.
  bool is_internal = false;
  /// Returns the exit status.
  std::function<int(const std::vector<std::string>& rest)> run = {};
  /// For a command that another program implements. Runs that program with these words, and returns
  /// its standard output. Returns an empty text if the program is not installed.
  std::function<std::string(const std::vector<std::string>& words)> ask_program = {};
};

/// A command and the commands above it, the program first.
using command_path = std::vector<const command*>;

/// Returns the words that name a command, such as "farcall run".
[[nodiscard]] std::string name_of(const command_path& path);
/// Returns the forms of a command without the command's name, such as "[OPTIONS] FILE".
[[nodiscard]] std::vector<std::string> usage_of(const command& described);
/// Returns the subcommands that users may know of.
[[nodiscard]] std::vector<const command*> visible_commands(const command& described);
/// Returns the options that users may know of.
[[nodiscard]] std::vector<option> visible_options(const command& described);

/// True for an argument, which has a position instead of dashes.
[[nodiscard]] bool is_argument(const option& o);
/// Returns the names of an option: "-e" and "--executable".
[[nodiscard]] std::vector<std::string> names_of(const option& o);
/// Returns the name of the option's value, such as "NUMBER". Returns an empty text if the option
/// takes no value.
[[nodiscard]] std::string value_name(const option& o);
/// Returns the option's names and value, such as "--gdb[=NODE]".
[[nodiscard]] std::string form_of(const option& o);
/// Returns the option's text, followed by its choices, limits and default value in parentheses.
[[nodiscard]] std::string full_text(const option& o);
/// Returns "a, b or c".
[[nodiscard]] std::string alternatives(const std::vector<std::string>& words);

/// Returns a copy of a program for documents. The options know their default values, and --help and
/// --version are options, too. Must be called before the command line is parsed, because parsing
/// changes the values.
[[nodiscard]] command documented(const command& program, bool has_version);

} // namespace farcall::tool
