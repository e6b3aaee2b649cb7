#pragma once

#include "node_rates.hpp"

#include <tools/common/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// What the rows are sorted by.
enum class node_order : std::uint8_t { node, calls, p99, queue, busy, processor, memory };

/// Sorts in place: the largest first, but for numbers of nodes.
void sort_nodes(std::vector<node_rates>& nodes, node_order by);

/// The table, a line each, the first with the headers. Columns that do not fit into `width` are
/// left out, the least important first, and the last that stays is cut; without a bound for 0. A
/// column for the job is there only where there are several.
[[nodiscard]] std::vector<std::string> node_table(const std::vector<node_rates>& nodes,
                                                  std::size_t width);

/// One object for each node.
[[nodiscard]] json nodes_json(const std::vector<node_rates>& nodes);

} // namespace farcall::tool
