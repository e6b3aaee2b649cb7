#pragma once

#include <farcall/files/file_messages.hpp>
#include <farcall/files/read_ahead.hpp>
#include <farcall/files/write_behind.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace farcall::files {

/// An open file of the host, with its position, what was read ahead, and what is written behind.
/// Functions as the system calls of the same names; they throw as host_requests::send(). Any
/// thread.
class buffered_file {
 public:
  /// `flags` as of open(2). With `buffers` false nothing is read ahead or written behind.
  buffered_file(host_requests& host, const opened_file& opened, int flags, bool buffers);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Which file it is of the host's.
  [[nodiscard]] bool is_same_as(const buffered_file& other) const noexcept {
    return device_ == other.device_ && inode_ == other.inode_;
  }
  [[nodiscard]] bool can_write() const noexcept { return can_write_; }

  [[nodiscard]] std::int64_t read(void* to, std::size_t bytes);
  [[nodiscard]] std::int64_t write(const void* from, std::size_t bytes);
  [[nodiscard]] std::int64_t pread(void* to, std::size_t bytes, std::int64_t offset);
  [[nodiscard]] std::int64_t pwrite(const void* from, std::size_t bytes, std::int64_t offset);
  [[nodiscard]] std::int64_t seek(std::int64_t offset, int whence);
  [[nodiscard]] std::int64_t set_flags(int flags);

  /// Any other operation on the file, after everything that was written. An error of that comes
  /// first for fsync, ftruncate and close; only close is done nevertheless.
  [[nodiscard]] std::int64_t ask(const request& what);

  /// Until everything that was written is done. Errors are kept.
  void wait_for_writes();
  /// As drop() of read_ahead.
  void drop_read_ahead();
  /// Nothing is buffered any more.
  void stop_buffering();
  /// Of a write behind that nobody has been told of yet: -errno, or 0.
  [[nodiscard]] std::int64_t take_error();

 private:
  [[nodiscard]] std::int64_t write_at(const void* from, std::size_t bytes, std::int64_t offset);

  host_requests& host_;
  const std::uint64_t number_;
  const std::uint64_t device_;
  const std::uint64_t inode_;
  const bool is_regular_;
  const bool can_write_;

  std::mutex mutex_;
  bool buffers_;
  /// The position is position_, and not the host's.
  bool has_position_;
  std::int64_t position_ = 0;
  read_ahead ahead_;
  write_behind behind_;
};

} // namespace farcall::files
