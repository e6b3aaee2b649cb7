#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// Callables of a program.
struct named_program {
  std::vector<std::pair<std::string, std::string>> names; ///< as function_registry::names()
  std::string path;                                       ///< on its machine
};

/// Asks the peer for its callables. Waits for the peer. Throws timeout, and what a call throws.
[[nodiscard]] named_program program_of_peer(am::requester& l, time_point deadline);

} // namespace farcall
