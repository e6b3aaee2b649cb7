// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// Commands that start the processes of nodes, for example a debugger or a tracer. Each command
/// gets the node's own command line as its last arguments. The commands are the value of the
/// setting `wrap`.
class wrap_commands {
 public:
  wrap_commands() noexcept = default;

  /// Reads a list of commands that are separated by semicolons; command_words() splits each of
  /// them. "2:strace -f" is the command for node 2. A command without a number is for every node
  /// that has no command of its own. Throws setting_error.
  [[nodiscard]] static wrap_commands parse(std::string_view text);
  /// Reads the commands from the variable FARCALL_WRAP. Throws setting_error, which names the
  /// variable.
  [[nodiscard]] static wrap_commands of_settings();

  /// Returns the words that precede the node's command line; none if the node has no such command.
  [[nodiscard]] const std::vector<std::string>& of(node_id node) const noexcept;
  /// Returns the commands that are for a single node, by the node's number.
  [[nodiscard]] const std::map<node_id, std::vector<std::string>>& by_node() const noexcept {
    return by_node_;
  }

 private:
  std::map<node_id, std::vector<std::string>> by_node_;
  std::vector<std::string> others_;
};

} // namespace farcall
