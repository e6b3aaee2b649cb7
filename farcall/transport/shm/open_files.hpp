#pragma once

#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Memory of a process that has it in files without names, as another process of the same user
/// finds it: /proc/PID/fd/N. Nobody has to pass descriptors.
namespace farcall::shm {

/// What a process tells of its files.
struct open_files {
  struct file {
    std::uint32_t number = 0; ///< of the descriptor there
    std::uint64_t bytes = 0;
    std::uint64_t device = 0; ///< with `inode`: which file it is
    std::uint64_t inode = 0;
  };
  std::uint64_t processes = 0; ///< its namespace of processes, in which its number is known
  std::uint64_t process = 0;
  std::vector<file> files;

  /// Of this process. Throws error.
  [[nodiscard]] static open_files describe(std::span<const memory_file> own);
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws malformed_message.
  [[nodiscard]] static open_files decode(std::span<const std::byte> bytes);

  /// Whether this process may find them: it is in the same namespace.
  [[nodiscard]] bool is_near() const noexcept;
  /// Maps them all, for `owner`. Throws node_failed where that process has ended, and error where
  /// the system does not let us, or other files are there.
  [[nodiscard]] std::vector<segment> map(node_id owner) const;
};

} // namespace farcall::shm
