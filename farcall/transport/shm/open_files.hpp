// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Memory of a process in unnamed files. Another process of the same user finds such a file at
/// /proc/PID/fd/N, so that no descriptors need to be passed.
namespace farcall::shm {

/// Description of memory files, which a process sends to other processes.
struct open_files {
  struct file {
    std::uint32_t number = 0; ///< number of the descriptor in the process that has the file
    std::uint64_t bytes = 0;
    std::uint64_t device = 0; ///< number of the file system; with `inode` it identifies the file
    std::uint64_t inode = 0;
  };
  /// Identity of the PID namespace in which `process` is a valid number.
  std::uint64_t processes = 0;
  std::uint64_t process = 0;
  std::vector<file> files;

  /// Describes files of this process. Throws error.
  [[nodiscard]] static open_files describe(std::span<const memory_file> own);
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws malformed_message.
  [[nodiscard]] static open_files decode(std::span<const std::byte> bytes);

  /// True if this process is in the same PID namespace as the process that has the files. Only then
  /// can this process find the other one by its process number.
  [[nodiscard]] bool is_near() const noexcept;
  /// Maps all files, which belong to the process of node `owner`. Throws node_failed if that
  /// process has ended. Throws error if the system denies access, or if the files have been
  /// replaced.
  [[nodiscard]] std::vector<segment> map(node_id owner) const;
};

} // namespace farcall::shm
