#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// Names and signatures of the peer's function registry, as function_registry::names() gives them
/// there. Waits for the peer. Throws timeout, and what a call throws.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> names_of_peer(am::requester& l,
                                                                             time_point deadline);

} // namespace farcall
