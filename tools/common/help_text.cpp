// SPDX-License-Identifier: Apache-2.0
#include "help_text.hpp"
#include "table.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// An option or a command, and its text.
using entry = std::pair<std::string, std::string>;

constexpr std::size_t indentation = 2;
/// Maximum column of the texts. Longer names have a line of their own.
constexpr std::size_t most_text_column = 28;

class help_writer {
 public:
  help_writer(std::size_t width, bool has_colours) : width_(width), has_colours_(has_colours) {}

  void add_usage(const std::string& name, const std::vector<std::string>& forms) {
    std::string_view before = "Usage: ";
    for (const std::string& form : forms) {
      const std::string first = std::string(before) + name + " ";
      text_ += styled(style::heading, before) + styled(style::name, name) + " ";
      add_lines(form, display_width(first), display_width(first));
      before = "       ";
    }
  }

  void add_paragraphs(const std::string& text) {
    if (text.empty()) return;
    text_ += '\n';
    add_lines(text, 0, 0);
  }

  void add_list(std::string_view heading, const std::vector<entry>& entries) {
    if (entries.empty()) return;
    text_ += '\n' + styled(style::heading, heading) + '\n';
    std::size_t longest = 0;
    for (const auto& [name, text] : entries)
      longest = std::max(longest, display_width(name));
    const std::size_t column = std::min(longest + 2 * indentation, most_text_column);
    for (const auto& [name, text] : entries) {
      text_ += std::string(indentation, ' ') + styled(style::name, name);
      std::size_t at = indentation + display_width(name);
      if (at + indentation > column) {
        text_ += '\n';
        at = 0;
      }
      text_.append(column - at, ' ');
      add_lines(text, column, column);
    }
  }

  void add_examples(const std::vector<command::example>& examples) {
    if (examples.empty()) return;
    text_ += '\n' + styled(style::heading, "Examples:") + '\n';
    for (const command::example& one : examples) {
      text_.append(indentation, ' ');
      add_lines(one.text + ":", indentation, indentation);
      text_ += std::string(2 * indentation, ' ') + styled(style::name, one.line) + '\n';
    }
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  [[nodiscard]] std::string styled(style as, std::string_view text) const {
    return has_colours_ ? styled_text(as, text) : std::string(text);
  }

  /// Adds the lines of a text. The first line begins at the column `at`, further lines are indented
  /// to the column `further`.
  void add_lines(const std::string& text, std::size_t at, std::size_t further) {
    // A narrow terminal breaks the lines itself.
    constexpr std::size_t narrowest = 20;
    const std::size_t space = std::max(width_ - std::min(width_, at), narrowest);
    bool is_first = true;
    for (const std::string& line : wrapped(text, space)) {
      if (!is_first && !line.empty()) text_.append(further, ' ');
      text_ += line + '\n';
      is_first = false;
    }
  }

  std::size_t width_;
  bool has_colours_;
  std::string text_;
};

} // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') lines.emplace_back();
    if (text[at] == '\n' || text[at] == ' ') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word(text.substr(at, end - at));
    at = end;
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string help_text(const command_path& path, std::size_t width, bool has_colours) {
  const command& described = *path.back();
  help_writer out(width, has_colours);
  out.add_usage(name_of(path), usage_of(described));
  out.add_paragraphs(described.text + '.');
  std::vector<entry> commands;
  for (const command* const c : visible_commands(described))
    commands.emplace_back(c->name, c->text);
  out.add_list("Commands:", commands);
  std::vector<entry> options;
  for (const option& o : visible_options(described))
    options.emplace_back(form_of(o), full_text(o));
  out.add_list("Options:", options);
  // Commands inherit the footer of the nearest command above.
  const auto with_footer =
      std::find_if(path.rbegin(), path.rend(), [](const command* c) { return !c->footer.empty(); });
  if (with_footer != path.rend()) out.add_paragraphs((*with_footer)->footer);
  out.add_examples(described.examples);
  return out.take();
}

} // namespace farcall::tool
