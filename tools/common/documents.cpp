// SPDX-License-Identifier: Apache-2.0
#include "documents.hpp"

#include "completion.hpp"
#include "help_text.hpp"
#include "man_page.hpp"
#include "outcome.hpp"
#include "terminal.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

/// True if the program implements a command of another program, such as "farcall bench".
bool is_part(const command& program) { return program.name.find(' ') != std::string::npos; }

const std::vector<std::string> shells = {"bash", "zsh", "fish"};

shell shell_named(std::string_view name) {
  return name == "bash" ? shell::bash : name == "zsh" ? shell::zsh : shell::fish;
}

/// Returns the rows of a program for a completion script, and the rows of programs that implement
/// commands of it.
std::string all_rows(const command& shown, const std::string& shell) {
  std::string rows = completion_rows({&shown}, shell_named(shell));
  for (const command& c : shown.commands) {
    if (c.ask_program) rows += c.ask_program({documents_option, shell});
  }
  return rows;
}

void write_page(const command_path& path, const std::string& folder) {
  const std::string file = folder + '/' + man_page_file(path);
  errno = 0;
  std::ofstream out(file);
  out << man_page(path, FARCALL_TOOL_VERSION);
  out.close();
  if (!out) throw failed_run(fmt::format("cannot write {}: {}", file, reason_text(errno)));
}

void write_pages(const command& shown, const std::string& folder) {
  write_page({&shown}, folder);
  // A part of another program has one page for all of its commands.
  if (is_part(shown)) return;
  for (const command* const c : visible_commands(shown)) {
    if (c->ask_program) {
      (void)c->ask_program({documents_option, "man", folder});
    } else {
      write_page({&shown, c}, folder);
    }
  }
}

int show_help(const command& shown, const std::vector<std::string>& words) {
  command_path path{&shown};
  if (words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"})
    return show_help(shown, {"help"});
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& below = path.back()->commands;
    const auto found = std::find_if(below.begin(), below.end(),
                                    [&](const command& c) { return c.name == words[i]; });
    if (found == below.end()) {
      throw usage_problem(fmt::format("there is no command \"{} {}\"; '{} help' lists the commands",
                                      name_of(path), words[i], shown.name));
    }
    path.push_back(&*found);
    if (found->takes_rest != command::rest::everything || found->name == "help") continue;
    std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
    rest.emplace_back("--help");
    return found->run(rest);
  }
  print_help(path);
  return 0;
}

/// Returns a function that returns documented() of the program with the commands of
/// with_documents(). The commands call this function only if they run, because the description
/// contains them.
std::function<command()> description_of(const command& program, const std::string& version) {
  return
      [program, version] { return documented(with_documents(program, version), !version.empty()); };
}

command command_help(const std::function<command()>& describe) {
  return {.name = "help",
          .text = "Print the help of the program, or of a command",
          .usage = {"[COMMAND...]"},
          .takes_rest = command::rest::everything,
          .run = [describe](const std::vector<std::string>& rest) {
            return show_help(describe(), rest);
          }};
}

command command_completion(const std::function<command()>& describe, bool is_part) {
  const auto shell = std::make_shared<std::string>();
  return {.name = "completion",
          .text = "Print the completion script of a shell",
          .footer = "Packages install these scripts in the folders of the shells. If bash has no "
                    "script of farcall, add this line to ~/.bashrc: source <(farcall completion "
                    "bash)",
          .options = {{.name = "SHELL",
                       .value = shell.get(),
                       .text = "Shell that reads the script",
                       .choices = shells,
                       .is_required = true}},
          .is_internal = is_part,
          .run = [shell, describe](const auto& /*rest*/) {
            const command shown = describe();
            print(completion_script(shown.name, shell_named(*shell), all_rows(shown, *shell)));
            return 0;
          }};
}

} // namespace

void print_help(const command_path& path) {
  constexpr std::size_t usual = 80;
  constexpr std::size_t widest = 100; // longer lines are hard to read
  const std::size_t width = std::min(terminal_width(STDOUT_FILENO).value_or(usual), widest);
  print(help_text(path, width, has_colours(STDOUT_FILENO)));
}

command with_documents(const command& program, const std::string& version) {
  command whole = program;
  if (program.commands.empty()) return whole;
  const auto describe = description_of(program, version);
  whole.commands.push_back(command_help(describe));
  whole.commands.push_back(command_completion(describe, is_part(program)));
  return whole;
}

void write_documents(const command& program, const std::string& version,
                     const std::vector<std::string>& words) {
  const command shown = description_of(program, version)();
  const bool is_man = words.size() == 2 && words.front() == "man";
  const bool is_shell = words.size() == 1 && std::ranges::count(shells, words.front()) != 0;
  if (!is_man && !is_shell) {
    throw usage_problem(
        fmt::format("{0}: give \"{0} man FOLDER\" or \"{0} SHELL\"", documents_option));
  }
  if (is_man) {
    write_pages(shown, words.back());
  } else {
    print(completion_rows({&shown}, shell_named(words.front())));
  }
}

} // namespace farcall::tool
