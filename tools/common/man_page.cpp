// SPDX-License-Identifier: Apache-2.0
#include "man_page.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Returns a text for groff: with backslashes and hyphens escaped, so that options can be copied,
/// and without characters that begin a request.
std::string escaped(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    switch (c) {
    case '\\':
      out += "\\e";
      break;
    case '-':
      out += "\\-";
      break;
    case '~':
      out += "\\(ti";
      break;
    case '^':
      out += "\\(ha";
      break;
    case '`':
      out += "\\(ga";
      break;
    case '\'':
      out += "\\(aq";
      break;
    default:
      out += c;
    }
    begins_line = c == '\n';
  }
  return out;
}

/// Returns a text with paragraphs at its line breaks.
std::string paragraphs(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (!out.empty()) out += ".PP\n";
    out += escaped(text.substr(at, end - at)) + '\n';
    at = end + 1;
  }
  return out;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", escaped(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", escaped(text)); }

std::string tag_of(const option& o) {
  if (is_argument(o)) return italic(o.name);
  std::string tag;
  for (const std::string& name : names_of(o))
    tag += (tag.empty() ? "" : ", ") + bold(name);
  const std::string value = value_name(o);
  if (value.empty()) return tag;
  return tag + (o.otherwise.empty() ? " " + italic(value) : "[=" + italic(value) + "]");
}

std::string entries(const command& described) {
  std::string out;
  for (const option& o : visible_options(described))
    out += fmt::format(".TP\n{}\n{}.\n", tag_of(o), escaped(full_text(o)));
  return out;
}

std::string file_name(const command_path& path) {
  std::string name = name_of(path);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string synopsis(const command_path& path) {
  std::string out;
  for (const std::string& form : usage_of(*path.back())) {
    if (!out.empty()) out += ".br\n";
    out += fmt::format("{} {}\n", bold(name_of(path)), escaped(form));
  }
  return out;
}

std::string examples(const std::vector<command::example>& all) {
  std::string out = all.empty() ? "" : ".SH EXAMPLES\n";
  for (const command::example& one : all)
    out += fmt::format(".TP\n{}\n{}.\n", bold(one.line), escaped(one.text));
  return out;
}

/// Describes the commands below a command, each in a part of its own.
std::string subcommands(const command_path& path) {
  std::string out;
  for (const command* const below : visible_commands(*path.back())) {
    command_path deeper = path;
    deeper.push_back(below);
    out += fmt::format(".SS {}\n{}.PP\n{}.\n{}", escaped(name_of(deeper)), synopsis(deeper),
                       escaped(below->text), entries(*below));
  }
  return out;
}

std::string list_of_commands(const command_path& path) {
  std::string out;
  for (const command* const below : visible_commands(*path.back()))
    out += fmt::format(".TP\n{}\n{}.\n", bold(below->name), escaped(below->text));
  return out;
}

std::string see_also(const command_path& path) {
  std::string out;
  const auto add = [&](const std::string& page) {
    out += fmt::format("{}.BR {} (1)", out.empty() ? "" : " ,\n", escaped(page));
  };
  if (path.size() > 1 || path.front()->name.find(' ') != std::string::npos) {
    add("farcall");
  } else {
    for (const command* const below : visible_commands(*path.back()))
      add(file_name({path.back(), below}));
  }
  return ".SH SEE ALSO\n" + out + '\n';
}

constexpr std::string_view exit_status = R"(.SH EXIT STATUS
.TP
.B 0
The command has succeeded.
.TP
.B 1
The command has failed, and has printed the reason to standard error.
.TP
.B 2
The command line or a setting is invalid. The command has started nothing.
.PP
A command that runs a program exits with the program\(aqs status instead.
)";

constexpr std::string_view variables = R"(.SH ENVIRONMENT
.TP
.B FARCALL_*
Settings of jobs. Programs that use farcall print a list of them with the option
.BR \-\-farcall\-help .
.TP
.B NO_COLOR
If set and not empty, the command prints no colours.
)";

} // namespace

std::string man_page_file(const command_path& path) { return file_name(path) + ".1"; }

std::string man_page(const command_path& path, const std::string& version) {
  const command& described = *path.back();
  const bool is_program = path.size() == 1 && described.name.find(' ') == std::string::npos;
  std::string title = file_name(path);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string purpose = described.text;
  purpose.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(purpose.front())));
  std::string page = fmt::format(".TH {} 1 \"\" \"farcall {}\" \"User Commands\"\n", escaped(title),
                                 escaped(version));
  // Lines that are adjusted to both margins, and divided words, make options hard to copy.
  page += ".nh\n.ad l\n";
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}.\n",
                      escaped(file_name(path)), escaped(purpose), synopsis(path),
                      escaped(described.text));
  if (!described.footer.empty()) page += ".PP\n" + paragraphs(described.footer);
  page += ".SH OPTIONS\n" + entries(described);
  if (!described.commands.empty())
    page += ".SH COMMANDS\n" + (is_program ? list_of_commands(path) : subcommands(path));
  page += examples(described.examples);
  page += exit_status;
  page += variables;
  return page + see_also(path);
}

} // namespace farcall::tool
