// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/transport/command_words.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <utility>

namespace farcall {
namespace {

[[noreturn]] void refuse_wrap(std::string_view piece, const std::string& why) {
  throw setting_error("the command \"" + std::string(piece) +
                      "\" that nodes are started by: " + why +
                      "; give for example 'strace -f' for all nodes, or '2:strace -f' for node 2");
}

} // namespace

wrap_commands wrap_commands::parse(std::string_view text) {
  wrap_commands all;
  for (;;) {
    const std::size_t end = find_unquoted(text, 0, ";");
    const std::string_view piece = text.substr(0, end);
    std::string_view command = piece;
    const std::size_t digits = piece.find_first_not_of("0123456789");
    const bool is_for_one = digits != 0 && digits < piece.size() && piece[digits] == ':';
    if (is_for_one) command.remove_prefix(digits + 1);
    try {
      std::vector<std::string> words = command_words(command);
      if (words.empty() || words.front().empty()) refuse_wrap(piece, "there is no command");
      std::vector<std::string>* place = &all.others_;
      if (is_for_one) {
        const auto node = parse_number(piece.substr(0, digits), "the node", 0, no_node - 1);
        place = &all.by_node_[static_cast<node_id>(node)];
      }
      if (!place->empty()) refuse_wrap(piece, "there is another one for the same nodes");
      *place = std::move(words);
    } catch (const setting_error& e) {
      if (std::string_view(e.what()).starts_with("the command")) throw;
      refuse_wrap(piece, e.what());
    }
    if (end >= text.size()) return all;
    text.remove_prefix(end + 1);
  }
}

wrap_commands wrap_commands::of_settings() {
  constexpr const setting& wrap = settings::row("wrap");
  const auto text = settings_source().text(wrap);
  if (!text) return {};
  try {
    return parse(*text);
  } catch (const setting_error& e) {
    throw setting_error(settings::variable_of(wrap) + ": " + e.what());
  }
}

const std::vector<std::string>& wrap_commands::of(node_id node) const noexcept {
  const auto at = by_node_.find(node);
  return at == by_node_.end() ? others_ : at->second;
}

} // namespace farcall
