// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// Names of a peer's callables, and the path of its program.
struct named_program {
  std::vector<std::pair<std::string, std::string>> names; ///< see function_registry::names()
  std::string path;                                       ///< on the peer's machine
};

/// Asks the peer for the names of its callables, and waits for the reply. Throws timeout, and what
/// a call throws.
[[nodiscard]] named_program program_of_peer(am::requester& l, time_point deadline);

} // namespace farcall
