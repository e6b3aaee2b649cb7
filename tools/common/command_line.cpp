// SPDX-License-Identifier: Apache-2.0

// This is the only file that includes CLI11, because CLI11 takes seconds to compile.

#include "command_line.hpp"

#include "documents.hpp"
#include "outcome.hpp"
#include "table.hpp"
#include "terminal.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/text.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace farcall::tool {

namespace {

constexpr int run_failed = 1;
constexpr int usage_wrong = 2;

/// The command that the command line names, and the words that the command gets unparsed.
struct choice {
  const command* chosen = nullptr;
  std::vector<std::string> rest;
};

template <class T>
struct number_of {
  using type = T;
};
template <class T>
struct number_of<std::optional<T>> {
  using type = T;
};

template <class T>
constexpr bool is_list = std::is_same_v<T, std::vector<std::string>>;

std::string is_given(const std::string& value) { return value.empty() ? "it needs a value" : ""; }

std::string quoted(const std::string& word) { return '"' + word + '"'; }

/// Returns the limits of a number, such as " from 20 to 100".
template <class T>
std::string limits_of(const option& described) {
  if (!described.range) return std::is_unsigned_v<T> ? " from 0 on" : "";
  const auto [least, most] = *described.range;
  const auto text = [&](std::size_t n) {
    return described.is_size ? format_bytes(n) : std::to_string(n);
  };
  return " from " + text(least) + " to " + text(most);
}

/// Checks that a word is a whole number of type T within the option's limits. CLI11 itself would
/// accept -1 as the largest unsigned number, and would not say why it refuses a word that is no
/// number.
template <class T>
std::string is_number_for(const option& described, const std::string& value) {
  T number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = error == std::errc() && end == value.data() + value.size();
  const auto& range = described.range;
  if (is_number && (!range || (number >= static_cast<T>(range->first) &&
                               number <= static_cast<T>(range->second))))
    return "";
  return (described.is_size ? "it needs a size" : "it needs a whole number") +
         limits_of<T>(described) + ", not " + quoted(value);
}

/// Replaces a size with a unit, such as 64MiB, by its number of bytes.
std::string as_bytes(std::string& value) {
  const std::string given = value;
  try {
    if (CLI::AsSizeValue(false)(value).empty()) return "";
  } catch (const CLI::Error&) {
    // The text below replaces the text of CLI11.
  }
  return "it needs a size such as 64MiB, not " + quoted(given);
}

template <class T>
CLI::Option* add_one(CLI::App& app, const option& described, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return app.add_flag(described.name, value)->disable_flag_override();
  } else {
    if constexpr (std::is_same_v<T, std::string>) {
      // Declare an option with an optional value as a flag, because CLI11 would otherwise take the
      // next word as the option's value.
      if (!described.otherwise.empty())
        return app.add_flag(described.name + '{' + described.otherwise + '}', value);
    }
    CLI::Option* made = app.add_option(described.name, value);
    // Refuse an empty value, which results from an unset variable in a shell.
    if constexpr (std::is_same_v<T, std::string> || is_list<T>) made->check(is_given);
    // Allow one value each time, because CLI11 would also take the following words as values.
    if constexpr (is_list<T>) made->allow_extra_args(false);
    using number = typename number_of<T>::type;
    if constexpr (std::is_integral_v<number>) {
      made->check(
          [described](const std::string& word) { return is_number_for<number>(described, word); });
      if (described.is_size) made->transform(CLI::Validator(as_bytes, ""));
    }
    return made;
  }
}

void add_option(CLI::App& app, const option& described) {
  CLI::Option* made =
      std::visit([&](auto* value) { return add_one(app, described, *value); }, described.value);
  if (!described.choices.empty()) {
    made->check([choices = described.choices](const std::string& word) {
      return std::find(choices.begin(), choices.end(), word) != choices.end()
                 ? ""
                 : "it needs " + alternatives(choices) + ", not " + quoted(word);
    });
  }
  if (!described.excludes.empty()) made->excludes(app.get_option(described.excludes));
  if (described.is_required) made->required();
}

void describe(CLI::App& app, const command& described, choice& chosen) {
  if (described.takes_rest != command::rest::refused) app.prefix_command();
  if (described.takes_rest == command::rest::everything) app.set_help_flag();
  for (const option& o : described.options)
    add_option(app, o);
  if (!described.commands.empty()) app.require_subcommand(1);
  for (const command& below : described.commands)
    describe(*app.add_subcommand(below.name), below, chosen);
  if (described.run) {
    app.callback([&app, &described, &chosen] { chosen = {&described, app.remaining()}; });
  }
}

/// Returns the command that the words name, with the commands above it.
command_path path_of(const command& program, int argc, const char* const* argv) {
  command_path path{&program};
  for (int i = 1; i < argc; ++i) {
    const auto& below = path.back()->commands;
    const std::string_view word = argv[i];
    const auto found =
        std::find_if(below.begin(), below.end(), [&](const command& c) { return c.name == word; });
    if (found == below.end()) {
      if (word.starts_with('-')) continue;
      break;
    }
    path.push_back(&*found);
  }
  return path;
}

/// Returns the number of letters to insert, remove or replace that make one word from the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t k = 0; k < other.size(); ++k) {
      const std::size_t replaced = diagonal + (one[i] == other[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, row[k] + 1, row[k + 1] + 1});
    }
  }
  return row.back();
}

/// Returns "; did you mean X?" for the known word that is most similar to a word, if any is.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  constexpr std::size_t most_typing_errors = 2;
  const auto nearest =
      std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
        return distance(word, a) < distance(word, b);
      });
  const bool is_similar =
      nearest != known.end() &&
      distance(word, *nearest) <= std::min(most_typing_errors, (word.size() + 1) / 2);
  return is_similar ? "; did you mean " + *nearest + "?" : "";
}

/// Returns a hint that names the command whose --help lists the right words.
std::string remedy(const command_path& path) {
  const std::string program = path.front()->name;
  std::string words = name_of(path).substr(program.size());
  return path.back()->commands.empty() ? "'" + program + " help" + words + "' lists the options"
                                       : "'" + program + " help" + words + "' lists the commands";
}

std::string text_of_unknown(const command_path& path, const std::string& word) {
  const command& at = *path.back();
  std::vector<std::string> known;
  if (!at.commands.empty() && !word.starts_with('-')) {
    for (const command* const c : visible_commands(at))
      known.push_back(c->name);
    return "there is no command " + quoted(word) + suggestion(word, known) + "; " + remedy(path);
  }
  for (const option& o : visible_options(at)) {
    for (std::string& name : names_of(o))
      known.push_back(std::move(name));
  }
  const std::string name = word.substr(0, word.find('='));
  return word.starts_with('-')
             ? "there is no option " + name + suggestion(name, known) + "; " + remedy(path)
             : quoted(word) + " is one argument too many; " + remedy(path);
}

/// Returns the text of an error for users, in place of the text of CLI11.
std::string text_of_error(const CLI::ParseError& e, const command_path& path,
                          const std::vector<std::string>& unread) {
  std::string text = e.what();
  const auto before = [&](std::string_view end) { return text.substr(0, text.find(end)); };
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !unread.empty())
    return text_of_unknown(path, unread.front());
  if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr) {
    if (!path.back()->commands.empty()) {
      return unread.empty() ? "no command given; " + remedy(path)
                            : text_of_unknown(path, unread.front());
    }
    return before(" is required") + " is missing; usage: " + name_of(path) + " " +
           usage_of(*path.back()).front();
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&e) != nullptr) {
    const std::string one = before(" excludes ");
    return one + " and " + text.substr(one.size() + std::string_view(" excludes ").size()) +
           " exclude each other; give one of them";
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr) {
    const std::string name = text.substr(0, text.find_first_of(": "));
    if (text.find(": At Most ") != std::string::npos) return name + " is given twice; give it once";
    // This text has the name without dashes.
    if (const std::size_t end = text.find(" was given a disallowed flag override");
        end != std::string::npos)
      return (end == 1 ? "-" : "--") + text.substr(0, end) + ": it takes no value";
    return name + ": it needs a value";
  }
  if (dynamic_cast<const CLI::ConversionError*>(&e) != nullptr)
    return text.substr(0, text.find_first_of(": ")) + ": it takes no value";
  return text;
}

/// Returns the option with this name, or null. Options have names such as "-e,--executable".
const option* option_named(const command& described, std::string_view name) {
  const auto has_name = [&](const option& o) {
    return (',' + o.name + ',').find(',' + std::string(name) + ',') != std::string::npos;
  };
  const auto found = std::find_if(described.options.begin(), described.options.end(), has_name);
  return found == described.options.end() ? nullptr : &*found;
}

/// Returns the first option that needs a value, and has none behind its "=", for instance because
/// of an unset variable in a shell; else returns an empty text. CLI11 would take the next word as
/// the value.
std::string_view option_without_value(const command_path& path, int argc, const char* const* argv) {
  const command& last = *path.back();
  if (last.takes_rest == command::rest::everything) return {};
  std::size_t commands = 1; // of the path, with the program
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with('-')) {
      if (commands < path.size() && word == path[commands]->name) {
        ++commands;
      } else if (last.takes_rest == command::rest::after_options) {
        return {}; // the program to run, with its own options
      }
      continue;
    }
    const std::size_t end = std::min(word.find('='), word.size());
    const option* const named = option_named(last, word.substr(0, end));
    if (named == nullptr || !named->otherwise.empty() ||
        std::holds_alternative<bool*>(named->value))
      continue;
    if (end + 1 == word.size()) return word.substr(0, end);
    if (end == word.size()) ++i;
  }
  return {};
}

/// Returns the number of words that CLI11 parses. If the command passes further words on, CLI11
/// parses the words before the first "--". Otherwise it parses all words of the command line.
int words_to_read(const command& program, int argc, const char* const* argv) {
  const auto named = [&](const command& c) { return argc > 1 && c.name == argv[1]; };
  const auto chosen = std::find_if(program.commands.begin(), program.commands.end(), named);
  if (chosen == program.commands.end() || chosen->takes_rest == command::rest::refused) return argc;
  const auto is_end = [](const char* word) { return std::string_view(word) == "--"; };
  return static_cast<int>(std::find_if(argv, argv + argc, is_end) - argv);
}

/// Adds the words that CLI11 has not parsed to the words for the command. If the command runs
/// another program, a "--" before the program's name ends the command's options, and is removed. A
/// "--" after the program's name is one of the program's words.
void add_unread(choice& made, int read, int argc, const char* const* argv) {
  if (made.chosen == nullptr || read == argc) return;
  const bool is_end = made.chosen->takes_rest == command::rest::after_options && made.rest.empty();
  made.rest.insert(made.rest.end(), argv + read + (is_end ? 1 : 0), argv + argc);
}

/// Prints an error: the name of the command, the reason and what to do. Words of the command line
/// may be among them, so control characters are replaced.
int complain(const std::string& name, int status, const std::string& what) {
  const std::string text = valid_text(what, line_ends::kept);
  std::fputs((styled_for(STDERR_FILENO, style::failure, name + ":") + ' ' + text + '\n').c_str(),
             stderr);
  return status;
}

int run_chosen(const std::string& name, const choice& made) {
  try {
    return made.chosen->run(made.rest);
  } catch (const usage_problem& e) {
    return complain(name, usage_wrong, e.what());
  } catch (const setting_error& e) {
    return complain(name, usage_wrong, e.what());
  } catch (const std::system_error& e) {
    // EAGAIN here means that the system could not start a thread.
    const bool is_limit = e.code() == std::errc::resource_unavailable_try_again;
    return complain(name, run_failed,
                    is_limit ? "cannot start a thread: the limit of processes is reached; raise it "
                               "with 'ulimit -u'"
                             : std::string(e.what()));
  } catch (const std::exception& e) {
    return complain(name, run_failed, e.what());
  }
}

/// Opens standard streams that are closed. Otherwise, files that the command opens would get the
/// numbers of these streams, and its output. Errors are discarded. Standard input and output get a
/// file for the other direction only, so that the command notices that they are closed.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest number that is free, which is this stream's.
    (void)!open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

} // namespace

int run_command_line(const command& given, const std::string& version, int argc,
                     const char* const* argv) {
  // Reset SIGCHLD to the default, because a process inherits across exec that the signal is
  // ignored. With an ignored SIGCHLD, the commands could not wait for the programs that they start.
  std::signal(SIGCHLD, SIG_DFL);
  occupy_closed_streams();
  if (argc > 1 && std::string_view(argv[1]) == documents_option) {
    const command documents{
        .name = given.name, .text = given.text, .run = [&](const std::vector<std::string>& words) {
          write_documents(given, version, words);
          return 0;
        }};
    return run_chosen(given.name, {&documents, {argv + 2, argv + argc}});
  }
  const command program = with_documents(given, version);
  const command shown = documented(program, !version.empty());
  CLI::App app;
  if (!version.empty()) app.set_version_flag("--version", version);
  choice made;
  describe(app, program, made);
  const int read = words_to_read(program, argc, argv);
  const command_path path = path_of(shown, read, argv);
  const std::string name = name_of(path);
  if (const std::string_view given_none = option_without_value(path, read, argv);
      !given_none.empty())
    return complain(name, usage_wrong, std::string(given_none) + ": it needs a value");
  try {
    app.parse(read, argv);
    // CLI11 passes an unknown option on as the first word of the program.
    if (made.chosen != nullptr && made.chosen->takes_rest == command::rest::after_options &&
        !made.rest.empty() && made.rest.front().starts_with('-')) {
      return complain(name, usage_wrong, text_of_unknown(path, made.rest.front()));
    }
    add_unread(made, read, argc, argv);
  } catch (const CLI::Success& e) { // --help and --version
    try {
      if (dynamic_cast<const CLI::CallForVersion*>(&e) != nullptr) {
        print(version + '\n');
      } else {
        print_help(path);
      }
      return 0;
    } catch (const failed_run& failure) {
      return complain(name, run_failed, failure.what());
    }
  } catch (const CLI::ParseError& e) {
    return complain(name, usage_wrong, text_of_error(e, path, app.remaining(true)));
  }
  return run_chosen(name, made);
}

} // namespace farcall::tool
