// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::files {

/// User, mount namespace and root folder of a process on this machine. They decide which files the
/// process sees. Two processes with equal views use the same files by the same paths, with the same
/// rights.
struct file_view {
  std::uint64_t user = 0;
  std::uint64_t mounts = 0; ///< number of the mount namespace; 0 if /proc does not show it
  std::uint64_t root_device = 0;
  std::uint64_t root_inode = 0;

  friend bool operator==(const file_view&, const file_view&) = default;
};

/// Returns the view of this process.
[[nodiscard]] file_view own_file_view() noexcept;

/// Returns the view as a text such as "0/4026531841/65024/2".
[[nodiscard]] std::string text_of(const file_view& view);
/// Parses the text that text_of() returns. Throws error for any other text.
[[nodiscard]] file_view parse_file_view(std::string_view text);

} // namespace farcall::files
