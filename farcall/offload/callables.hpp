#pragma once

#include <farcall/call/key_resolver.hpp>
#include <farcall/offload/node.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace farcall::detail {

/// What a node's program lets others call: for tools.
struct program_table {
  std::string build;        ///< which build of the program it is
  std::uint64_t digest = 0; ///< two programs with the same one have equal rows
  /// Names and signatures as peers see them. Row 0 names the standard library; the key of a row is
  /// its number and key_resolver::first_row_key.
  std::vector<std::pair<std::string, std::string>> rows;
};

/// Asks the node, which is a process. Waits for it until the deadline. Throws timeout, node_failed.
[[nodiscard]] program_table table_of(const timed_node& of);

} // namespace farcall::detail
