// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_tree.hpp"

#include <string>

namespace farcall::tool {

/// Returns a line "outermost;…;innermost count" for each sampled chain of functions, which is the
/// format of flamegraph.pl. The lines are sorted. A ';' in a name becomes ':'. Throws
/// std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string collapsed_stacks(const profile& seen,
                                           const call_tree_options& options = {});

} // namespace farcall::tool
