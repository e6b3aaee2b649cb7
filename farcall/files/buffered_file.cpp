// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/buffered_file.hpp>
#include <farcall/files/transfers.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Maximum number of bytes that Linux reads or writes in one call.
constexpr std::size_t max_transfer = 0x7ffff000;

/// True if both the offset and the end of a read or write are valid positions in a file, as the
/// kernel requires.
bool ends_in_range(std::int64_t offset, std::size_t bytes) noexcept {
  return offset >= 0 && bytes <= static_cast<std::uint64_t>(INT64_MAX - offset);
}

} // namespace

buffered_file::buffered_file(host_requests& host, const opened_file& opened, int flags,
                             bool buffers, bool reads_ahead)
    : host_(host), number_(opened.file), device_(opened.status.device), inode_(opened.status.inode),
      is_regular_(S_ISREG(opened.status.mode)), can_write_((flags & O_ACCMODE) != O_RDONLY),
      reads_ahead_(reads_ahead), waits_((flags & O_NONBLOCK) == 0),
      // Don't buffer a synchronous file (O_SYNC, O_DSYNC), because each of its writes must be on
      // the disk when the call returns.
      buffers_(buffers && is_regular_ && (flags & (O_SYNC | O_DSYNC)) == 0),
      has_position_(is_regular_ && (flags & O_APPEND) == 0), ahead_(host, opened.file),
      behind_(host, opened.file) {}

std::int64_t buffered_file::read(void* to, std::size_t bytes) {
  bytes = std::min(bytes, max_transfer);
  std::unique_lock lock(mutex_);
  behind_.wait();
  if (!has_position_) {
    // Unlock during the read, because the read may take long, for instance at a terminal, and must
    // not block other threads.
    const bool waits = waits_ && !is_regular_;
    lock.unlock();
    const auto once = [&] { return read_now(host_, number_, to, bytes, at_position); };
    return waits ? host_.until_ready(once) : once();
  }
  std::optional<std::int64_t> got;
  if (buffers_ && reads_ahead_) got = ahead_.read(to, bytes, position_);
  if (!got) {
    got = read_now(host_, number_, to, bytes, position_);
    ahead_.has_read(position_, *got);
  }
  if (*got > 0) position_ += *got;
  return *got;
}

std::int64_t buffered_file::pread(void* to, std::size_t bytes, std::int64_t offset) {
  bytes = std::min(bytes, max_transfer);
  if (!ends_in_range(offset, bytes)) return -EINVAL;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (can_write_) {
    lock.lock();
    behind_.wait();
  } else {
    // If another thread holds the lock, read without the lock and without read-ahead, so that
    // threads that read at explicit offsets don't wait for each other.
    (void)lock.try_lock();
  }
  const bool may_buffer = lock.owns_lock() && buffers_ && reads_ahead_;
  if (may_buffer) {
    if (const std::optional<std::int64_t> got = ahead_.read(to, bytes, offset)) return *got;
  }
  if (lock.owns_lock()) lock.unlock();
  const std::int64_t got = read_now(host_, number_, to, bytes, offset);
  if (may_buffer && lock.try_lock()) ahead_.has_read(offset, got);
  return got;
}

std::int64_t buffered_file::write_on(const void* from, std::size_t bytes, bool waits) {
  return with_readable(from, bytes, [&](std::span<const std::byte> left) -> std::int64_t {
    std::int64_t all = 0;
    for (;;) {
      const auto once = [&] { return write_now(host_, number_, left, at_position); };
      const std::int64_t done = waits ? host_.until_ready(once) : once();
      if (done <= 0) return all > 0 ? all : done;
      all += done;
      left = left.subspan(static_cast<std::size_t>(done));
      if (!waits || left.empty()) return all;
    }
  });
}

std::int64_t buffered_file::read_through(void* to, std::size_t bytes, std::int64_t offset) {
  bytes = std::min(bytes, max_transfer);
  if (!ends_in_range(offset, bytes)) return -EINVAL;
  if (can_write_) wait_for_writes();
  return read_now(host_, number_, to, bytes, offset);
}

std::int64_t buffered_file::read_to(landing_sink& to, std::size_t bytes, std::int64_t offset) {
  bytes = std::min(bytes, max_piece);
  if (!ends_in_range(offset, bytes)) return -EINVAL;
  if (can_write_) wait_for_writes();
  const landing_place landing(to, bytes);
  return host_.ask({.what = operation::read,
                    .file = number_,
                    .offset = offset,
                    .bytes = bytes,
                    .landing = landing.number()});
}

std::int64_t buffered_file::write_at(const void* from, std::size_t bytes, std::int64_t offset) {
  ahead_.drop();
  return with_readable(from, bytes, [&](std::span<const std::byte> checked) {
    return buffers_ ? behind_.write(checked, offset) : write_now(host_, number_, checked, offset);
  });
}

std::int64_t buffered_file::write(const void* from, std::size_t bytes) {
  bytes = std::min(bytes, max_transfer);
  if (!can_write_) return -EBADF;
  std::unique_lock lock(mutex_);
  if (!is_regular_) {
    // Unlock during the write, as in read().
    const bool waits = waits_;
    lock.unlock();
    return write_on(from, bytes, waits);
  }
  if (!has_position_) return write_at(from, bytes, at_position);
  if (!ends_in_range(position_, bytes)) return -EFBIG;
  const std::int64_t done = write_at(from, bytes, position_);
  if (done > 0) position_ += done;
  return done;
}

std::int64_t buffered_file::pwrite(const void* from, std::size_t bytes, std::int64_t offset) {
  bytes = std::min(bytes, max_transfer);
  if (!ends_in_range(offset, bytes)) return -EINVAL;
  if (!can_write_) return -EBADF;
  const std::lock_guard guard(mutex_);
  return write_at(from, bytes, offset);
}

std::int64_t buffered_file::write_through(const void* from, std::size_t bytes,
                                          std::int64_t offset) {
  const bool is_at_position = offset == at_position;
  bytes = std::min(bytes, max_transfer);
  if (!can_write_) return -EBADF;
  if (!is_regular_ && is_at_position) return write(from, bytes);
  const std::lock_guard guard(mutex_);
  if (is_at_position && has_position_) offset = position_;
  if (offset != at_position && !ends_in_range(offset, bytes))
    return is_at_position ? -EFBIG : -EINVAL;
  behind_.wait();
  if (const std::int64_t error = behind_.take_error(); error != 0) return error;
  ahead_.drop();
  const std::int64_t done = with_readable(from, bytes, [&](std::span<const std::byte> checked) {
    return write_now(host_, number_, checked, offset);
  });
  if (done > 0 && is_at_position && has_position_) position_ += done;
  return done;
}

std::int64_t buffered_file::seek(std::int64_t offset, int whence) {
  const std::lock_guard guard(mutex_);
  if (!has_position_ || (whence != SEEK_SET && whence != SEEK_CUR)) {
    behind_.wait();
    const std::int64_t there = host_.ask({.what = operation::seek,
                                          .file = number_,
                                          .offset = offset,
                                          .flags = static_cast<std::uint32_t>(whence)});
    if (there >= 0) position_ = there;
    return there;
  }
  const std::int64_t from = whence == SEEK_SET ? 0 : position_;
  if (offset > INT64_MAX - from || from + offset < 0) return -EINVAL;
  return position_ = from + offset;
}

std::int64_t buffered_file::set_flags(int flags) {
  const std::lock_guard guard(mutex_);
  behind_.wait();
  request moves{.what = operation::seek, .file = number_};
  const bool appends = (flags & O_APPEND) != 0;
  if (appends && has_position_) {
    moves.offset = position_;
    moves.flags = SEEK_SET;
    if (const std::int64_t there = host_.ask(moves); there < 0) return there;
  }
  const std::int64_t result =
      host_.ask({.what = operation::set_flags, .file = number_, .flags = to_open_flags(flags)});
  if (result < 0) return result;
  waits_ = (flags & O_NONBLOCK) == 0;
  if (!appends && !has_position_ && is_regular_) {
    moves.flags = SEEK_CUR;
    const std::int64_t there = host_.ask(moves);
    if (there < 0) return there;
    position_ = there;
  }
  has_position_ = is_regular_ && !appends;
  return result;
}

std::int64_t buffered_file::ask(const request& what) {
  const unsigned traits = traits_of(what.what);
  const std::lock_guard guard(mutex_);
  behind_.wait();
  const std::int64_t error = (traits & FARCALL_IO_REPORTS) != 0 ? behind_.take_error() : 0;
  if (error != 0 && what.what != operation::close) return error;
  if ((traits & FARCALL_IO_CHANGES) != 0) ahead_.drop();
  const std::int64_t result = host_.ask(what);
  return error != 0 ? error : result;
}

void buffered_file::wait_for_writes() {
  const std::lock_guard guard(mutex_);
  behind_.wait();
}

void buffered_file::drop_read_ahead() {
  const std::lock_guard guard(mutex_);
  ahead_.drop();
}

void buffered_file::stop_buffering() {
  const std::lock_guard guard(mutex_);
  behind_.wait();
  ahead_.drop();
  buffers_ = false;
}

std::int64_t buffered_file::take_error() {
  const std::lock_guard guard(mutex_);
  return behind_.take_error();
}

} // namespace farcall::files
