#pragma once

#include <tests/model/explorer.hpp>

#include <string>
#include <vector>

namespace farcall::check {

/// The mutants of the code that `scenarios` run, all of which are right, and none of which goes
/// wrong with the mutant: what nobody needs, or what the scenarios do not show. Sorted, by function
/// and operation, each once. Where a function has several such operations, the number of the line
/// among theirs follows: "lock: store release 2, omitted".
[[nodiscard]] std::vector<std::string> survivors(const std::vector<scenario>& scenarios,
                                                 const bounds& limits = {});

} // namespace farcall::check
