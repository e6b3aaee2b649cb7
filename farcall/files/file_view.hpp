#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::files {

/// With what eyes a process on this machine sees files: its user, its mount namespace and its root.
/// Two with the same view use the same files by the same paths, with the same rights.
struct file_view {
  std::uint64_t user = 0;
  std::uint64_t mounts = 0; ///< number of the namespace; 0 where /proc does not tell
  std::uint64_t root_device = 0;
  std::uint64_t root_inode = 0;

  friend bool operator==(const file_view&, const file_view&) = default;
};

/// Of this process.
[[nodiscard]] file_view own_file_view() noexcept;

/// "0/4026531841/65024/2".
[[nodiscard]] std::string text_of(const file_view& view);
/// Throws error for any other text.
[[nodiscard]] file_view parse_file_view(std::string_view text);

} // namespace farcall::files
