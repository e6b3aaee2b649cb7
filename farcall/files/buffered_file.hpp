// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/file_messages.hpp>
#include <farcall/files/read_ahead.hpp>
#include <farcall/files/write_behind.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace farcall::files {

/// A file of the host that a target has open. Knows the file's position, the bytes that were read
/// ahead, and the writes that are in flight. The functions behave like the system calls of the same
/// names, and throw like host_requests::send(). Any thread may call them.
class buffered_file {
 public:
  /// `flags` are the flags of open(2). If `buffers` is false, nothing is read ahead, and each write
  /// waits for the host. If `reads_ahead` is false, only writes are buffered.
  buffered_file(host_requests& host, const opened_file& opened, int flags, bool buffers,
                bool reads_ahead);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// True if this object and `other` are the same file on the host.
  [[nodiscard]] bool is_same_as(const buffered_file& other) const noexcept {
    return device_ == other.device_ && inode_ == other.inode_;
  }
  [[nodiscard]] bool can_write() const noexcept { return can_write_; }
  /// True for a regular file. Other files are never buffered.
  [[nodiscard]] bool is_regular() const noexcept { return is_regular_; }

  [[nodiscard]] std::int64_t read(void* to, std::size_t bytes);
  [[nodiscard]] std::int64_t write(const void* from, std::size_t bytes);
  [[nodiscard]] std::int64_t pread(void* to, std::size_t bytes, std::int64_t offset);
  [[nodiscard]] std::int64_t pwrite(const void* from, std::size_t bytes, std::int64_t offset);
  /// Reads like pread(), but neither uses nor fetches bytes ahead.
  [[nodiscard]] std::int64_t read_through(void* to, std::size_t bytes, std::int64_t offset);
  /// Reads up to max_piece bytes like read_through(), but passes them to `to`.
  [[nodiscard]] std::int64_t read_to(landing_sink& to, std::size_t bytes, std::int64_t offset);
  /// Writes like write() or, if `offset` is not at_position, like pwrite(), and waits for the host.
  /// Returns the host's result, so that the position advances by the bytes that are in the file. If
  /// an earlier write has failed, returns its error and writes nothing.
  [[nodiscard]] std::int64_t write_through(const void* from, std::size_t bytes,
                                           std::int64_t offset);
  [[nodiscard]] std::int64_t seek(std::int64_t offset, int whence);
  [[nodiscard]] std::int64_t set_flags(int flags);

  /// Sends an operation to the host for which this class has no function. Before that, waits for
  /// all earlier writes. If one of them has failed, and the operation reports errors of writes,
  /// returns the error of the write. In this case only close is performed nevertheless.
  [[nodiscard]] std::int64_t ask(const request& what);

  /// Waits until the host has done all writes. The errors of these writes are kept for
  /// take_error().
  void wait_for_writes();
  /// Calls read_ahead::drop(), which drops the bytes that were read ahead.
  void drop_read_ahead();
  /// Waits for writes in flight and drops the bytes that were read ahead. Later operations are not
  /// buffered.
  void stop_buffering();
  /// Returns -errno of the first failed write whose error was not reported yet, or 0.
  [[nodiscard]] std::int64_t take_error();

 private:
  /// Writes to a pipe or device, which has no position. If `waits` is true, waits until all bytes
  /// are written.
  [[nodiscard]] std::int64_t write_on(const void* from, std::size_t bytes, bool waits);
  [[nodiscard]] std::int64_t write_at(const void* from, std::size_t bytes, std::int64_t offset);

  host_requests& host_;
  const std::uint64_t number_;
  const std::uint64_t device_;
  const std::uint64_t inode_;
  const bool is_regular_;
  const bool can_write_;
  const bool reads_ahead_;

  std::mutex mutex_;
  /// True if reads and writes of a pipe or device wait, because the file was opened without
  /// O_NONBLOCK.
  bool waits_;
  bool buffers_;
  /// True if position_ is the file's position. False if only the host knows the position.
  bool has_position_;
  std::int64_t position_ = 0;
  read_ahead ahead_;
  write_behind behind_;
};

} // namespace farcall::files
