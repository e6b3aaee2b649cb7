// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::openmp {

/// Place where a target runs.
struct target_place {
  std::string machine;
  std::vector<std::uint64_t> processors; ///< as own_processors() returns them
};

/// Returns the number of targets that share the processors of the target `which`, at least 1. A
/// target shares processors with the targets of its machine that are bound to the same ones. A
/// launcher that has bound each target to processors of its own has divided the machine already.
[[nodiscard]] std::uint32_t sharers_of(const std::vector<target_place>& all, std::size_t which);

} // namespace farcall::openmp
