// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mounted_prefix.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

namespace farcall::mount {

/// A file that the system has open. One exists for each open() of a program. Any thread may use it.
struct open_file {
  std::uint64_t number; ///< at the host
  node_number node;
  bool is_seekable; ///< false for pipes, terminals and the like, which have no offsets
  bool is_cached;   ///< the system keeps the contents
  std::atomic<int> flags;
  /// True if there may be writes that the host has not done.
  std::atomic<bool> is_written{false};
  std::mutex mutex{};
  std::set<std::uint64_t> owners{}; ///< that have got locks by this file; guarded by the mutex

  void note_owner(std::uint64_t owner) {
    const std::lock_guard guard(mutex);
    owners.insert(owner);
  }
  void forget_owner(std::uint64_t owner) {
    const std::lock_guard guard(mutex);
    owners.erase(owner);
  }
};

inline open_file& file_of(const fuse_file_info& info) noexcept {
  return *reinterpret_cast<open_file*>(info.fh);
}

/// Removes the locks of an owner on a file, if it has any. Returns 0, or -errno.
std::int64_t unlock_owner(mounted_prefix& of, const open_file& file, std::uint64_t owner);

} // namespace farcall::mount
