// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/file_calls.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

namespace farcall::files {

/// Files of the host that the helper of a mount has open. The helper has several connections, and
/// may open a file by one and close it by another. After the last connection has ended, removes the
/// locks that are left, and closes the files that are still open, because the helper may have been
/// killed. Any thread may call it.
class mounted_files {
 public:
  /// `files` must outlive this object.
  explicit mounted_files(file_calls& files) noexcept : files_(files) {}

  /// Counts a connection of the helper, as long as this object exists.
  class connection {
   public:
    explicit connection(mounted_files& files) noexcept : files_(files) { files_.begin(); }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() { files_.end(); }

   private:
    mounted_files& files_;
  };

  /// Performs an operation like file_calls::perform(), or FARCALL_IO_FLUSH. A read may have the
  /// flag FARCALL_IO_NOT_AHEAD.
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked) noexcept;

 private:
  void begin() noexcept;
  void end() noexcept;
  [[nodiscard]] std::int64_t lock(const farcall_io_request& asked) noexcept;

  file_calls& files_;
  std::mutex mutex_;
  std::set<std::uint64_t> open_;
  /// Owners that have set locks, by the open files for which they have done so.
  std::map<std::uint64_t, std::set<std::uint64_t>> owners_;
  std::size_t connections_ = 0;
};

} // namespace farcall::files
