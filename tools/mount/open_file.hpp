// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nodes.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace farcall::mount {

/// A file that the system has open. One exists for each open() of a program. Any thread may use it.
struct open_file {
  std::uint64_t number; ///< at the host
  node_number node;
  bool is_seekable; ///< false for pipes, terminals and the like, which have no offsets
  bool is_cached;   ///< the system keeps the contents
  bool is_writable; ///< true if the file was opened for writing
  std::atomic<int> flags;
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

/// The files of one mount that the system has open, by the numbers of the host. The system names
/// them by the same numbers, so that the target can read and write them without the helper. Any
/// thread may use this object.
class open_files {
 public:
  open_file& add(std::unique_ptr<open_file> file) {
    const std::lock_guard guard(mutex_);
    open_file& added = *file;
    all_[added.number] = std::move(file);
    return added;
  }
  /// Returns a file that the system has open, which lives until the system closes it.
  [[nodiscard]] open_file& at(std::uint64_t number) {
    const std::lock_guard guard(mutex_);
    return *all_.at(number);
  }
  [[nodiscard]] std::unique_ptr<open_file> take(std::uint64_t number) {
    const std::lock_guard guard(mutex_);
    const auto found = all_.find(number);
    std::unique_ptr<open_file> taken = std::move(found->second);
    all_.erase(found);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<open_file>> all_;
};

class mounted_prefix;

/// Removes the locks of an owner on a file, if it has any. Returns 0, or -errno.
std::int64_t unlock_owner(mounted_prefix& of, const open_file& file, std::uint64_t owner);

} // namespace farcall::mount
