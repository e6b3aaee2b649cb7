#pragma once

#include <farcall/base/node_id.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// Commands that start nodes, each with the node's own command line behind it: debuggers, tracers.
/// The value of the setting `wrap`.
class wrap_commands {
 public:
  wrap_commands() noexcept = default;

  /// Commands with ; between them, each a command line of command_words(). "2:strace -f" is for
  /// node 2, one without a number for every node that has none of its own. Throws setting_error.
  [[nodiscard]] static wrap_commands parse(std::string_view text);
  /// Reads FARCALL_WRAP. Throws setting_error, which names the variable.
  [[nodiscard]] static wrap_commands of_settings();

  /// The words that come before those of the node; empty: none.
  [[nodiscard]] const std::vector<std::string>& of(node_id node) const noexcept;
  /// Commands for one node, by its number.
  [[nodiscard]] const std::map<node_id, std::vector<std::string>>& by_node() const noexcept {
    return by_node_;
  }

 private:
  std::map<node_id, std::vector<std::string>> by_node_;
  std::vector<std::string> others_;
};

} // namespace farcall
