// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/descriptor_share.hpp>

#include <algorithm>

#include <sys/resource.h>

namespace farcall::files {

descriptor_share share_of_target(std::size_t targets, std::uint64_t limit) noexcept {
  // Number of descriptors that the job itself needs for a target.
  constexpr std::uint64_t of_target = 7;
  targets = std::max<std::size_t>(targets, 1);
  const std::uint64_t taken = spare_descriptors + of_target * targets;
  const std::uint64_t each = limit > taken ? (limit - taken) / targets : 0;
  const auto part = [&](std::uint64_t of_all, std::size_t most) {
    return static_cast<std::size_t>(
        std::clamp<std::uint64_t>(each * of_all / (max_open_files + max_held_locks), 1, most));
  };
  if (each >= max_open_files + max_held_locks) return {};
  return {part(max_open_files, max_open_files), part(max_held_locks, max_held_locks)};
}

std::uint64_t most_descriptors() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

void keep_spare_descriptors(int newest) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max ||
      static_cast<rlim_t>(newest) + spare_descriptors < limit.rlim_cur)
    return;
  limit.rlim_cur = std::min(limit.rlim_cur + 8 * spare_descriptors, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace farcall::files
