#pragma once

#include "call_tree.hpp"

#include <string>

namespace farcall::tool {

/// A line "outermost;…;innermost count" for each chain of functions that was sampled, sorted: the
/// format that flamegraph.pl and others read. A ';' in a name becomes ':'. Throws
/// std::invalid_argument for a damaged profile.
[[nodiscard]] std::string collapsed_stacks(const profile& seen,
                                           const call_tree_options& options = {});

} // namespace farcall::tool
