// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/io_socket.h>
#include <farcall/files/mounted_files.hpp>

#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>

namespace farcall::files {

std::int64_t mounted_files::perform(const farcall_io_request& asked) noexcept {
  if (asked.operation == FARCALL_IO_FLUSH) return files_.flush(asked.file);
  if (asked.operation == farcall_io_op_lock) return lock(asked);
  if (asked.operation == farcall_io_op_read && asked.flags == FARCALL_IO_NOT_AHEAD)
    return files_.read_through(asked);
  if (asked.operation == farcall_io_op_close) {
    const std::lock_guard guard(mutex_);
    open_.erase(asked.file);
    owners_.erase(asked.file);
  }
  const std::int64_t result = files_.perform(asked);
  const bool opens =
      asked.operation == farcall_io_op_open || asked.operation == farcall_io_op_reopen;
  if (!opens || result < 0) return result;
  const std::uint64_t file = static_cast<const farcall_io_opened*>(asked.result)->file;
  try {
    const std::lock_guard guard(mutex_);
    open_.insert(file);
  } catch (const std::bad_alloc&) {
    (void)files_.close(file);
    return -ENOMEM;
  }
  return result;
}

std::int64_t mounted_files::lock(const farcall_io_request& asked) noexcept {
  farcall_io_lock wanted{};
  const bool is_range = asked.flags == FARCALL_IO_LOCK_SET && asked.data_bytes == sizeof wanted;
  if (!is_range) return files_.perform(asked);
  std::memcpy(&wanted, asked.data, sizeof wanted);
  if (wanted.type != F_UNLCK) {
    try {
      const std::lock_guard guard(mutex_);
      owners_[asked.file].insert(wanted.owner);
    } catch (const std::bad_alloc&) {
      return -ENOLCK;
    }
  }
  return files_.perform(asked);
}

void mounted_files::begin() noexcept {
  const std::lock_guard guard(mutex_);
  ++connections_;
}

void mounted_files::end() noexcept {
  std::set<std::uint64_t> left;
  std::map<std::uint64_t, std::set<std::uint64_t>> owners;
  {
    const std::lock_guard guard(mutex_);
    if (--connections_ > 0) return;
    left.swap(open_);
    owners.swap(owners_);
  }
  for (const auto& [file, all] : owners) {
    for (const std::uint64_t owner : all) {
      const farcall_io_lock whole{owner, 0, 0, F_UNLCK};
      farcall_io_lock found{};
      (void)files_.lock(file, FARCALL_IO_LOCK_SET, &whole, &found);
    }
  }
  for (const std::uint64_t file : left)
    (void)files_.close(file);
}

} // namespace farcall::files
