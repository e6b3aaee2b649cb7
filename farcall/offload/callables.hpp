// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/node.hpp>
#include <farcall/call/key_resolver.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace farcall::detail {

/// The callables of a node's program, with the name and the signature of each. Tools show this
/// table.
struct program_table {
  std::string build; ///< build id of the program
  std::uint64_t digest =
      0; ///< digest of all rows; two programs with the same digest have equal rows
  /// Names and signatures as other nodes see them, one row for each. Row 0 names the standard
  /// library. The key of a row is the row's number plus key_resolver::first_row_key.
  std::vector<std::pair<std::string, std::string>> rows;
};

/// Asks the node for the table of its program, and waits for the reply, at most until the deadline
/// of `of`. The node must have a process of its own. Throws timeout, node_failed.
[[nodiscard]] program_table table_of(const timed_node& of);

} // namespace farcall::detail
