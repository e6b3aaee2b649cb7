// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/target_url.hpp>

#include <string>
#include <vector>

namespace farcall::tool {

/// Values of the debugging options of `farcall run`. An option that was not given has an empty
/// text. At most one option may be given.
struct debug_request {
  std::string gdb = {};      ///< number of a node
  std::string valgrind = {}; ///< number of the node to run in valgrind, or "all"
  std::string wrap = {};     ///< as the setting `wrap`
};

/// Properties of this process's environment on which a debugger depends.
struct debug_place {
  std::string command;       ///< path of this command
  std::string path;          ///< value of the variable PATH, by which programs are found
  bool has_terminal = false; ///< true if a debugger can talk to the user
};

/// Commands and settings by which the nodes of a job run in a debugger or another tool.
struct debug_plan {
  /// Words that are put before the host's command line. The list is empty if the host runs without
  /// a tool.
  std::vector<std::string> host;
  /// Value for the setting `wrap`, which contains the targets' tools; empty if there is none.
  std::string targets;
  /// False if timeouts must be switched off, because a debugger may stop a node for a long time.
  bool has_timeouts = true;
  /// True if the nodes must have a small heap, because the tool searches all of it.
  bool has_little_memory = false;
  /// True if a target's debugger uses the terminal, so that the host must not read from it.
  bool takes_terminal = false;
};

/// Makes a plan from the user's options. Throws usage_problem if more than one of the options was
/// given, if a node does not exist or is not started on this machine, or if a tool is not
/// installed.
[[nodiscard]] debug_plan plan_debugging(const debug_request& request,
                                        const std::vector<target_url>& targets,
                                        const debug_place& where);

} // namespace farcall::tool
