// SPDX-License-Identifier: Apache-2.0

// This is the only file that includes CLI11, because CLI11 takes seconds to compile.

#include "command_line.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

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

template <class T>
void add_range(CLI::Option& made, const option& described) {
  using number = typename number_of<T>::type;
  if constexpr (std::is_arithmetic_v<number> && !std::is_same_v<number, bool>) {
    const auto [least, most] = *described.range;
    made.check(CLI::Range(static_cast<number>(least), static_cast<number>(most)));
  }
}

std::string is_given(const std::string& value) { return value.empty() ? "it needs a value" : ""; }

/// Checks that a word is a whole number of type T. CLI11 itself would accept -1 as the largest
/// unsigned number, and would not say why it refuses a word that is no number.
template <class T>
std::string is_whole_number(const std::string& value) {
  T number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) return "";
  return "it needs a whole number" + std::string(std::is_unsigned_v<T> ? " from 0 on" : "") +
         ", not \"" + value + "\"";
}

template <class T>
CLI::Option* add_one(CLI::App& app, const option& described, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return app.add_flag(described.name, value, described.text);
  } else {
    if constexpr (std::is_same_v<T, std::string>) {
      // Declare an option with an optional value as a flag, because CLI11 would otherwise take the
      // next word as the option's value.
      if (!described.otherwise.empty()) {
        return app
            .add_flag(described.name + '{' + described.otherwise + '}', value, described.text)
            ->option_text("[=" + described.otherwise + "]");
      }
    }
    CLI::Option* made = app.add_option(described.name, value, described.text);
    // Refuse an empty value, which results from an unset variable in a shell.
    if constexpr (std::is_same_v<T, std::string> || is_list<T>) made->check(is_given);
    // Allow one value each time, because CLI11 would also take the following words as values.
    if constexpr (is_list<T>) made->allow_extra_args(false);
    using number = typename number_of<T>::type;
    if constexpr (std::is_integral_v<number>) {
      if (!described.is_size) made->check(is_whole_number<number>);
    }
    if (described.is_size) made->transform(CLI::AsSizeValue(false));
    if (described.range) add_range<T>(*made, described);
    return made;
  }
}

void add_option(CLI::App& app, const option& described) {
  CLI::Option* made =
      std::visit([&](auto* value) { return add_one(app, described, *value); }, described.value);
  if (!described.choices.empty()) made->check(CLI::IsMember(described.choices));
  if (!described.excludes.empty()) made->excludes(app.get_option(described.excludes));
  if (described.shows_default) made->capture_default_str();
  if (described.is_required) made->required();
}

/// Shortens CLI11's description of a number: replaces names of types by NUMBER, and removes bounds
/// that are only the limits of the type.
std::string plain_kind(const std::string& text) {
  static const std::regex bounded("U?INT:U?INT in \\[([0-9]+) - ([0-9]{1,9})\\]");
  static const std::regex unbounded("U?INT(:U?INT in \\[[^\\]]*\\])?");
  return std::regex_replace(std::regex_replace(text, bounded, "NUMBER ($1 to $2)"), unbounded,
                            "NUMBER");
}

/// Formatter for --help. Leaves out the "{VALUE}" that CLI11 prints after the name of a flag with a
/// value.
class plain_formatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* one, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(one, is_positional);
    return name.substr(0, name.find('{'));
  }
  std::string make_option_opts(const CLI::Option* one) const override {
    return plain_kind(CLI::Formatter::make_option_opts(one));
  }
};

void describe(CLI::App& app, const command& described, choice& chosen) {
  app.formatter(std::make_shared<plain_formatter>());
  app.footer(described.footer.empty() ? app.get_footer() : described.footer);
  if (described.takes_rest != command::rest::refused) app.prefix_command();
  if (described.takes_rest == command::rest::everything) app.set_help_flag();
  for (const option& o : described.options)
    add_option(app, o);
  if (!described.commands.empty()) app.require_subcommand(1);
  for (const command& below : described.commands)
    describe(*app.add_subcommand(below.name, below.text), below, chosen);
  if (described.run) {
    app.callback([&app, &described, &chosen] { chosen = {&described, app.remaining()}; });
  }
}

/// Returns the first word on the command line that should name a command but names none. Returns an
/// empty text if there is no such word.
std::string unknown_word(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (at->get_subcommands([](const CLI::App*) { return true; }).empty()) return "";
    const auto found =
        at->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
    if (found.empty()) return word;
    at = found.front();
  }
  return "";
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

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

int complain(const command& program, int status, const std::string& what) {
  std::fputs((first_word(program.name) + ": " + what + '\n').c_str(), stderr);
  return status;
}

int run_chosen(const command& program, const choice& made) {
  try {
    return made.chosen->run(made.rest);
  } catch (const usage_problem& e) {
    return complain(program, usage_wrong, e.what());
  } catch (const setting_error& e) {
    return complain(program, usage_wrong, e.what());
  } catch (const std::system_error& e) {
    // EAGAIN here means that the system could not start a thread.
    const bool is_limit = e.code() == std::errc::resource_unavailable_try_again;
    return complain(program, run_failed,
                    is_limit ? "cannot start a thread: the limit of processes is reached "
                               "('ulimit -u')"
                             : std::string(e.what()));
  } catch (const std::exception& e) {
    return complain(program, run_failed, e.what());
  }
}

} // namespace

int run_command_line(const command& program, const std::string& version, int argc,
                     const char* const* argv) {
  // Reset SIGCHLD to the default, because a process inherits across exec that the signal is
  // ignored. With an ignored SIGCHLD, the commands could not wait for the programs that they start.
  std::signal(SIGCHLD, SIG_DFL);
  CLI::App app{program.text};
  app.name(program.name);
  if (!version.empty()) app.set_version_flag("--version", version);
  choice made;
  describe(app, program, made);
  const int read = words_to_read(program, argc, argv);
  try {
    app.parse(read, argv);
    add_unread(made, read, argc, argv);
  } catch (const CLI::Success& e) { // --help and --version
    try {
      std::ostringstream text;
      const int status = app.exit(e, text);
      print(text.str());
      return status;
    } catch (const failed_run& failure) {
      return complain(program, run_failed, failure.what());
    }
  } catch (const CLI::RequiredError& e) {
    const std::string word = unknown_word(app, argc, argv);
    if (!word.empty()) {
      return complain(program, usage_wrong,
                      "there is no command \"" + word + "\"; " + program.name +
                          " --help lists them");
    }
    app.exit(e);
    return usage_wrong;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string what = e.what();
    const std::size_t end = what.find(": 1 required ");
    if (end != std::string::npos)
      return complain(program, usage_wrong, what.substr(0, end) + ": it needs a value");
    app.exit(e);
    return usage_wrong;
  } catch (const CLI::ParseError& e) {
    app.exit(e); // prints the error, and a hint to use --help
    return usage_wrong;
  }
  return run_chosen(program, made);
}

} // namespace farcall::tool
