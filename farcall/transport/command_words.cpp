// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/command_words.hpp>

#include <utility>

namespace farcall {

std::size_t find_unquoted(std::string_view text, std::size_t from, std::string_view stops) {
  char quote = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (stops.find(text[i]) != std::string_view::npos) {
      return i;
    }
  }
  return text.size();
}

std::vector<std::string> command_words(std::string_view command) {
  std::vector<std::string> words;
  for (std::size_t at = command.find_first_not_of(' '); at < command.size();) {
    const std::size_t end = find_unquoted(command, at, " ");
    std::string word;
    char quote = 0;
    for (const char c : command.substr(at, end - at)) {
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    }
    if (quote != 0) throw setting_error(std::string("a quote ") + quote + " is not closed");
    words.push_back(std::move(word));
    at = command.find_first_not_of(' ', end);
  }
  return words;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_of(" '\";,?:") == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word)
      text += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
    text += '\'';
  }
  return text;
}

} // namespace farcall
