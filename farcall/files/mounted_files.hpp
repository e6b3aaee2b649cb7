// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/mount_device.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

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
  /// flag FARCALL_IO_NOT_AHEAD. An open sets `passed` like file_calls::open_for_mount().
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked, unique_fd& passed) noexcept;
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked) noexcept {
    unique_fd unused;
    return perform(asked, unused);
  }

  /// True if the system keeps contents that it reads by this open file. `flags` are the present
  /// flags of the open file.
  [[nodiscard]] bool is_cached(std::uint64_t file, int flags) noexcept;
  /// Calls file_calls::read_to().
  [[nodiscard]] std::int64_t read_to(std::uint64_t file, std::size_t bytes, std::int64_t offset,
                                     landing_sink& to) noexcept {
    return files_.read_to(file, to, bytes, offset);
  }
  /// Writes like pwrite(2). Before that, makes the host's open file append if `flags` contain
  /// O_APPEND, and not append otherwise. `flags` are the present flags of the program's open file.
  [[nodiscard]] std::int64_t write(std::uint64_t file, int flags, std::span<const std::byte> from,
                                   std::int64_t offset) noexcept;

  /// Notes an error of a write whose success was reported. The next FARCALL_IO_FLUSH or fsync of
  /// the open file returns it.
  void note_late_error(std::uint64_t file, std::int64_t error) noexcept;

  /// Serves the device of a mount from now on (mount_device.hpp). Returns 0, or -errno.
  [[nodiscard]] std::int64_t serve(unique_fd device, unique_fd helper, bool reads_ahead) noexcept;
  /// Ends the service of all devices.
  void finish() noexcept;

 private:
  struct open_file {
    bool appends = false;        ///< true if the host's open file has O_APPEND now
    bool is_appending = false;   ///< true if the program has opened the file with O_APPEND
    std::int64_t late_error = 0; ///< -errno of a write whose success was reported, or 0
  };
  void begin() noexcept;
  void end() noexcept;
  [[nodiscard]] std::int64_t take_late_error(std::uint64_t file) noexcept;
  [[nodiscard]] std::int64_t lock(const farcall_io_request& asked) noexcept;

  file_calls& files_;
  std::mutex mutex_;
  std::map<std::uint64_t, open_file> open_;
  /// Owners that have set locks, by the open files for which they have done so.
  std::map<std::uint64_t, std::set<std::uint64_t>> owners_;
  std::size_t connections_ = 0;
  std::vector<std::unique_ptr<mount_device>> devices_;
  bool is_finished_ = false;
};

} // namespace farcall::files
