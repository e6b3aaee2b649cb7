// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_tree.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// Returns an HTML document that loads no other file. It has the shares of the program, of
/// libraries, of farcall and of waiting, a table of the processes, a flame graph, and a table of
/// the functions. `notes` are sentences on gaps of the profile. Equal profiles give equal bytes.
/// Throws std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string profile_page(const profile& seen, call_tree_options::roots root,
                                       const std::vector<std::string>& notes);

} // namespace farcall::tool
