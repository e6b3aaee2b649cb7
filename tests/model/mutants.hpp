// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/model/explorer.hpp>

#include <string>
#include <vector>

namespace farcall::check {

/// Returns the mutants with which no scenario goes wrong: the operation is not needed, or not
/// tested. The scenarios must be right without mutants. The result is sorted by function and
/// operation. If a function has several such operations, the rank of the line follows: "lock: store
/// release 2, omitted".
[[nodiscard]] std::vector<std::string> survivors(const std::vector<scenario>& scenarios,
                                                 const bounds& limits = {});

} // namespace farcall::check
