// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

/// Nodes that veo_proc_create() accepts, and the helper programs that run on them.
namespace farcall::veo {

/// Returns the number of the node that the program means by `given`. If the variable _VENODELIST is
/// set, `given` is a position in the list that this variable contains. Otherwise `given` is the
/// number itself. If `given` is -1, VE_NODE_NUMBER contains the number. Without VE_NODE_NUMBER, the
/// node is the first one of the list, or 0 if there is no list. Throws error, whose text names the
/// valid numbers.
[[nodiscard]] int choose_node(int given);

/// Returns the number of nodes: the number of entries in FARCALL_VEO_NODES, or 8 on this machine if
/// that variable is unset.
[[nodiscard]] int node_count();

/// Start of a helper.
struct helper_start {
  std::string url;      ///< target URL by which farcall starts the helper
  std::string named_by; ///< "VEORUN_BIN is ..." if this variable names the helper; otherwise empty
};

/// Returns how farcall starts a helper on a node. `program` is the helper's
/// command line. If `program` is empty, the helper is the program that FARCALL_VEO_NODES names for
/// this node, otherwise the program VEORUN_BIN, otherwise the program that is installed with this
/// library. If the node is a server on another machine, the server has been started with its
/// helper, and `program` must be empty. If VEO_DEBUG is set, the helper starts in a debugger.
/// Throws error.
[[nodiscard]] helper_start start_of_helper(int node, const std::string& program);

} // namespace farcall::veo
