#pragma once

#include <optional>
#include <string>

/// The nodes that veo_proc_create() can name, and the programs that run there.
namespace farcall::veo {

/// Number of a node from the one that the program gave: -1 means VE_NODE_NUMBER; with _VENODELIST,
/// numbers are places in that list. Throws error that says which numbers there are.
[[nodiscard]] int choose_node(int given);

/// How many there are: the entries of FARCALL_VEO_NODES, else 8, all on this machine.
[[nodiscard]] int node_count();

/// The farcall target URL of a helper on a node. `program` is a command line, or empty for
/// VEORUN_BIN, else for the aveorun that was installed with this library; servers elsewhere run
/// their own. VEO_DEBUG puts a debugger in front of it. Throws error.
[[nodiscard]] std::string helper_url(int node, const std::string& program);

} // namespace farcall::veo
