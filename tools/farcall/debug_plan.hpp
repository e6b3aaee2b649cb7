#pragma once

#include <farcall/transport/target_url.hpp>

#include <string>
#include <vector>

namespace farcall::tool {

/// What the options of `farcall run` ask for; empty: nothing. At most one of them is given.
struct debug_request {
  std::string gdb = {};      ///< number of a node
  std::string valgrind = {}; ///< number of a node, or "all"
  std::string wrap = {};     ///< as the setting `wrap`
};

/// Where the request is to be met.
struct debug_place {
  std::string command;       ///< the file of this command itself
  std::string path;          ///< where programs are looked up
  bool has_terminal = false; ///< a debugger can talk to the user
};

/// How the nodes of a job are started by something else.
struct debug_plan {
  std::vector<std::string> host;  ///< the words before those of the host; empty: none
  std::string targets;            ///< value of the setting `wrap`; empty: none
  bool has_timeouts = true;       ///< else a node may stand still
  bool has_little_memory = false; ///< the tool looks through all of it
  bool takes_terminal = false;    ///< the debugger of a target does
};

/// Throws usage_problem where the request cannot be met: more than one kind, a node that does not
/// exist or is not started on this machine, a program that is not installed.
[[nodiscard]] debug_plan plan_debugging(const debug_request& request,
                                        const std::vector<target_url>& targets,
                                        const debug_place& where);

} // namespace farcall::tool
