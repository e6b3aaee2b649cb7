#pragma once

#include "profile.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// Which samples stand together.
enum class parts_by { node, thread };

/// The samples of one node, or of one thread. The rest is as in the profile.
struct profile_part {
  std::string title; ///< "node 2", "thread 4711 (worker) of node 1"
  profile samples;
};

/// In the order of nodes, processes that are none of a job last; or of threads. No part is empty.
[[nodiscard]] std::vector<profile_part> parts_of(const profile& p, parts_by by);

} // namespace farcall::tool
