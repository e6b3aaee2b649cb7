// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/descriptor_share.hpp>
#include <farcall/files/io_operations.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace farcall::files {

/// Locks that one target holds on files of the host. Each owner has one file description for each
/// file that it has locked, and the locks are the description's (F_OFD_SETLK of fcntl(2)). So locks
/// of different owners exclude each other, and exclude locks of other processes on the host. Locks
/// of one owner do not, even if it has opened the file twice. If the file's mode does not allow to
/// open it again, owners use the description of the open file itself, and do not exclude each other
/// if they share it. Any thread may call it.
class host_locks {
 public:
  /// Sets, removes or tests the lock of a range of an open file. `is_writable` says if targets may
  /// write to the file. `most` is the maximum number of descriptions. Never waits: returns -EAGAIN
  /// if another lock excludes the requested one, and -ENOLCK at the limit of descriptions. Returns
  /// 0, or -errno.
  [[nodiscard]] std::int64_t perform(int file, bool is_writable, int command,
                                     const farcall_io_lock& wanted, farcall_io_lock& found,
                                     std::size_t most = max_held_locks);

 private:
  struct key {
    std::uint64_t device, inode, owner;
    friend auto operator<=>(const key&, const key&) = default;
  };

  std::mutex mutex_;
  std::map<key, unique_fd> held_; ///< descriptions of owners that hold locks
};

} // namespace farcall::files
