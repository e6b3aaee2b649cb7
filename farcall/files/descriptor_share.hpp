// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

/// Division of the host's file descriptors among its targets, so that one target that opens many
/// files takes them neither from the other targets nor from the host's program.
namespace farcall::files {

/// Maximum number of files that one target may have open at a time. Opening another file fails with
/// EMFILE.
inline constexpr std::size_t max_open_files = 1024;
/// Maximum number of descriptors for a target's locks (host_locks).
inline constexpr std::size_t max_held_locks = 512;
/// Number of descriptors that targets leave to the host's program.
inline constexpr std::size_t spare_descriptors = 128;

/// Maximum numbers of a target's descriptors on the host.
struct descriptor_share {
  std::size_t files = max_open_files;
  std::size_t locks = max_held_locks;
};

/// Returns the part of each of `targets` targets if this process may open `limit` descriptors.
[[nodiscard]] descriptor_share share_of_target(std::size_t targets, std::uint64_t limit) noexcept;

/// Returns the hard limit of this process's descriptors.
[[nodiscard]] std::uint64_t most_descriptors() noexcept;

/// Raises the soft limit of descriptors, at most to the hard limit, if `newest` shows that fewer
/// than spare_descriptors are left. `newest` is a descriptor that was just opened, and so the
/// lowest number that was free.
void keep_spare_descriptors(int newest) noexcept;

} // namespace farcall::files
