// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "node_rates.hpp"

#include <tools/common/json.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Value by which the rows of the table are sorted.
enum class node_order : std::uint8_t { node, calls, p99, queue, busy, processor, memory };

/// Names of columns, and the meaning of their values.
struct column_meaning {
  std::string_view columns;
  std::string_view meaning;
};
[[nodiscard]] std::span<const column_meaning> column_meanings();

/// Sorts the nodes in place. The order `node` is ascending, by job and then by node. All other
/// orders are descending.
void sort_nodes(std::vector<node_rates>& nodes, node_order by);

/// Returns the lines of the table, the headers first. `width` is the maximum width of a line; 0
/// means no limit. If the columns do not fit, the least important ones are dropped. If only one
/// column is left and is too wide, it is truncated. There is a column for the job only if there are
/// several jobs.
[[nodiscard]] std::vector<std::string> node_table(const std::vector<node_rates>& nodes,
                                                  std::size_t width);

/// Returns a JSON array with an object for each node.
[[nodiscard]] json nodes_json(const std::vector<node_rates>& nodes);

} // namespace farcall::tool
