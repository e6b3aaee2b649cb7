// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

/// Returns the beginning of a text, which fits beside a name in the lists that shells show.
std::string brief(const std::string& text) {
  constexpr std::size_t shortest = 12;
  std::size_t end = text.size();
  for (const std::string_view stop : {". ", "; ", ": ", " (", ", which "})
    end = std::min(end, text.find(stop, shortest));
  return text.substr(0, end);
}

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

bool takes_value(const option& o) { return !value_name(o).empty(); }

/// True if the option's value may be a separate word.
bool takes_next_word(const option& o) { return takes_value(o) && o.otherwise.empty(); }

bool is_repeatable(const option& o) {
  return std::holds_alternative<std::vector<std::string>*>(o.value);
}

/// Returns the commands that a word of this command may name: its subcommands, or for "help" all
/// commands.
std::vector<const command*> named_commands(const command_path& path) {
  const command& c = *path.back();
  return c.name == "help" && path.size() > 1 ? visible_commands(*path[path.size() - 2])
                                             : visible_commands(c);
}

bool starts_program(const command& c) { return c.takes_rest == command::rest::after_options; }

bool is_kind_of_path(const std::string& name) {
  return name == "FILE" || name == "FOLDER" || name == "PROGRAM";
}

// bash: a row is a branch of a `case` that assigns to variables of the script.

std::string bash_values(const option& o) {
  if (!o.choices.empty()) return joined(o.choices, " ");
  return is_kind_of_path(o.takes) ? o.takes : "";
}

std::string bash_row(const command_path& path) {
  const command& c = *path.back();
  std::vector<std::string> commands;
  std::vector<std::string> options;
  std::vector<std::string> valued;
  std::string arguments;
  std::string values;
  for (const command* const below : named_commands(path))
    commands.push_back(below->name);
  for (const option& o : visible_options(c)) {
    if (is_argument(o)) {
      arguments = bash_values(o);
      continue;
    }
    for (const std::string& name : names_of(o)) {
      options.push_back(name);
      if (takes_next_word(o)) valued.push_back(name);
      if (takes_value(o) && !bash_values(o).empty())
        values += fmt::format("    '{} {}') values='{}' ;;\n", name_of(path), name, bash_values(o));
    }
  }
  std::string row = fmt::format("    '{}')\n      commands='{}'\n      options='{}'\n",
                                name_of(path), joined(commands, " "), joined(options, " "));
  if (!valued.empty()) row += fmt::format("      valued=' {} '\n", joined(valued, " "));
  if (!arguments.empty()) row += fmt::format("      argument='{}'\n", arguments);
  if (starts_program(c)) row += "      program=yes\n";
  return row + "      ;;\n" + values;
}

constexpr std::string_view bash_script =
    R"SH(# Completion of @program@ in bash. "@program@ completion bash" prints this text.

# Assigns the words that may follow a command, or the values of an option, to variables of the caller.
_@program@_row() {
  commands= options= valued= argument= program= values=
  case $1 in
@rows@  esac
}

_@program@_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$@" -- "$current")
}

_@program@_values() {
  case $1 in
    FILE) _@program@_files -f ;;
    FOLDER) _@program@_files -d ;;
    PROGRAM) _@program@_files -c -f ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current") ;;
  esac
}

_@program@() {
  local current=${COMP_WORDS[COMP_CWORD]} where=@program@ option= word at
  local commands options valued argument program values
  COMPREPLY=()
  _@program@_row "$where"
  for ((at = 1; at < COMP_CWORD; ++at)); do
    word=${COMP_WORDS[at]}
    if [[ $word == = ]]; then
      option=${COMP_WORDS[at - 1]} # bash splits --option=value into three words
    elif [[ -n $option ]]; then
      option=
    elif [[ $valued == *" $word "* ]]; then
      option=$word
    elif [[ " $commands " == *" $word "* ]]; then
      where+=" $word"
      _@program@_row "$where"
    elif [[ -n $program && ($word != -* || $word == --) ]]; then
      [[ $word != -- ]] || ((++at))
      if declare -F _command_offset >/dev/null; then
        _command_offset "$at"
      else
        _@program@_values "$( ((at == COMP_CWORD)) && echo PROGRAM || echo FILE)"
      fi
      return
    fi
  done
  if [[ $current == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 1]} current=
  fi
  if [[ -n $option ]]; then
    _@program@_row "$where $option"
    _@program@_values "$values"
  elif [[ $current == -* ]]; then
    _@program@_values "$options"
  elif [[ -n $program ]]; then
    _@program@_values PROGRAM
  elif [[ -n $argument ]]; then
    _@program@_values "$argument"
  else
    _@program@_values "${commands:-$options}"
  fi
}

complete -F _@program@ @program@
)SH";

// zsh: a row is a branch of a `case` that assigns specifications for _arguments.

/// Returns a text for zsh in single quotes. In a specification, brackets and colons have a meaning.
std::string zsh_text(const std::string& text) { return replaced(text, "'", R"('\'')"); }

std::string zsh_explanation(std::string text) {
  for (const std::string_view c : {"[", "]", ":"})
    text = replaced(text, c, "\\" + std::string(c));
  return zsh_text(text);
}

std::string zsh_action(const option& o) {
  if (!o.choices.empty()) return "(" + joined(o.choices, " ") + ")";
  if (o.takes == "FILE") return "_files";
  if (o.takes == "FOLDER") return "_files -/";
  if (o.takes == "PROGRAM") return "_command_names -e";
  return " ";
}

std::string zsh_option(const option& o) {
  std::string specifications;
  std::vector<std::string> excluded = names_of(o);
  if (!o.excludes.empty()) excluded.push_back(o.excludes);
  const std::string value = value_name(o);
  for (const std::string& name : names_of(o)) {
    const bool is_long = name.starts_with("--");
    std::string joint;
    if (takes_value(o)) joint = !is_long ? "+" : takes_next_word(o) ? "=" : "=-";
    std::string spec = is_repeatable(o) ? "*" : fmt::format("({})", joined(excluded, " "));
    spec += fmt::format("{}{}[{}]", name, joint, zsh_explanation(brief(o.text)));
    if (!value.empty()) {
      spec += fmt::format("{}{}:{}", takes_next_word(o) ? ":" : "::", zsh_explanation(value),
                          zsh_action(o));
    }
    specifications += fmt::format("        '{}'\n", spec);
  }
  return specifications;
}

std::string zsh_row(const command_path& path) {
  const command& c = *path.back();
  std::string row = fmt::format("    '{}')\n      rows=(\n", name_of(path));
  for (const option& o : visible_options(c)) {
    row +=
        is_argument(o) ? fmt::format("        '1:{}:{}'\n", o.name, zsh_action(o)) : zsh_option(o);
  }
  if (starts_program(c)) row += "        '*:::program:_normal'\n";
  row += "      )\n";
  if (const auto below = named_commands(path); !below.empty()) {
    row += "      commands=(\n";
    for (const command* const one : below)
      row += fmt::format("        '{}:{}'\n", one->name, zsh_text(brief(one->text)));
    row += "      )\n";
  }
  return row + "      ;;\n";
}

constexpr std::string_view zsh_script = R"SH(#compdef @program@
# Completion of @program@ in zsh. "@program@ completion zsh" prints this text.

# Assigns the options and commands that may follow a command to variables of the caller.
_@program@_row() {
  rows=() commands=()
  case $1 in
@rows@  esac
}

_@program@() {
  local curcontext="$curcontext" state state_descr line where=@program@ ret=1
  local -A opt_args
  local -a rows commands
  while _@program@_row "$where" && (( $#rows + $#commands )); do
    state=
    if (( $#commands )); then
      _arguments -C -s "$rows[@]" '1: :->command' '*:: :->below' && ret=0
    else
      _arguments -s -A '-*' "$rows[@]" && ret=0
    fi
    case $state in
      command) _describe -t commands command commands && ret=0 ;;
      below)
        where+=" $words[1]"
        continue
        ;;
    esac
    break
  done
  return ret
}

if [[ $funcstack[1] == _@program@ ]]; then
  _@program@ "$@"
else
  compdef _@program@ @program@
fi
)SH";

// fish: rows are commands `complete`, and lists of words.

std::string fish_text(std::string text) {
  return replaced(replaced(std::move(text), "\\", "\\\\"), "'", "\\'");
}

std::string fish_option(const command_path& path, const option& o) {
  std::string line = fmt::format("complete -c {0} -n \"__{0}_at '{1}'\"", first_word(name_of(path)),
                                 name_of(path));
  for (const std::string& name : names_of(o)) {
    if (is_argument(o)) continue;
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!o.choices.empty()) {
    line += fmt::format(" -xa '{}'", joined(o.choices, " "));
  } else if (o.takes == "FILE") {
    line += " -rF";
  } else if (o.takes == "FOLDER") {
    line += " -xa '(__fish_complete_directories)'";
  } else if (o.takes == "PROGRAM") {
    line += " -xa '(__fish_complete_command)'";
  } else if (takes_next_word(o) && !is_argument(o)) {
    line += " -x";
  }
  return line + (is_argument(o) ? "" : fmt::format(" -d '{}'", fish_text(brief(o.text)))) + "\n";
}

std::string fish_row(const command_path& path) {
  const command& c = *path.back();
  const std::string where = name_of(path);
  const std::string program = first_word(where);
  std::string row;
  for (const command* const below : named_commands(path)) {
    row += fmt::format("set -ga __{}_commands '{} {}'\n", program, where, below->name);
    row += fmt::format("complete -c {0} -n \"__{0}_at '{1}'\" -a {2} -d '{3}'\n", program, where,
                       below->name, fish_text(brief(below->text)));
  }
  for (const option& o : visible_options(c)) {
    row += fish_option(path, o);
    for (const std::string& name : names_of(o)) {
      if (takes_next_word(o) && !is_argument(o))
        row += fmt::format("set -ga __{}_valued '{} {}'\n", program, where, name);
    }
  }
  if (starts_program(c)) {
    row += fmt::format("set -ga __{0}_starters '{1}'\n"
                       "complete -c {0} -n \"__{0}_at '{1}'\" -a '(__fish_complete_command)'\n",
                       program, where);
  }
  return row;
}

constexpr std::string_view fish_script =
    R"SH(# Completion of @program@ in fish. "@program@ completion fish" prints this text.

set -g __@program@_commands
set -g __@program@_valued
set -g __@program@_starters

# Prints the command that the words before the cursor name, or "program" behind a program's name.
function __@program@_path
    set -l path @program@
    set -l is_value no
    for word in (commandline -opc)[2..-1]
        if test $is_value = yes
            set is_value no
        else if contains -- "$path $word" $__@program@_valued
            set is_value yes
        else if contains -- "$path $word" $__@program@_commands
            set path "$path $word"
        else if not string match -q -- '-*' $word
            contains -- $path $__@program@_starters; and set path program
            break
        end
    end
    echo $path
end

function __@program@_at
    test (__@program@_path) = "$argv"
end

complete -c @program@ -f
complete -c @program@ -n '__@program@_at program' -F
@rows@)SH";

} // namespace

std::string completion_rows(const command_path& path, shell s) {
  std::string rows = s == shell::bash  ? bash_row(path)
                     : s == shell::zsh ? zsh_row(path)
                                       : fish_row(path);
  for (const command* const below : visible_commands(*path.back())) {
    // The program that implements the command has rows of its own.
    if (below->ask_program) continue;
    command_path deeper = path;
    deeper.push_back(below);
    rows += completion_rows(deeper, s);
  }
  return rows;
}

std::string completion_script(const std::string& program, shell s, const std::string& rows) {
  const std::string_view script = s == shell::bash  ? bash_script
                                  : s == shell::zsh ? zsh_script
                                                    : fish_script;
  return replaced(replaced(std::string(script), "@program@", program), "@rows@", rows);
}

} // namespace farcall::tool
