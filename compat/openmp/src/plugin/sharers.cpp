// SPDX-License-Identifier: Apache-2.0
#include "sharers.hpp"

#include <algorithm>

namespace farcall::openmp {

std::uint32_t sharers_of(const std::vector<target_place>& all, std::size_t which) {
  const target_place& own = all.at(which);
  return static_cast<std::uint32_t>(std::ranges::count_if(all, [&](const target_place& other) {
    return other.machine == own.machine && other.processors == own.processors;
  }));
}

} // namespace farcall::openmp
