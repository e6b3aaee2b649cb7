// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/io_socket.h>
#include <farcall/files/mounted_files.hpp>

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <fcntl.h>

namespace farcall::files {

std::int64_t mounted_files::perform(const farcall_io_request& asked, unique_fd& passed) noexcept {
  if (asked.operation == FARCALL_IO_FLUSH || asked.operation == farcall_io_op_fsync) {
    const std::int64_t late = take_late_error(asked.file);
    const std::int64_t result =
        asked.operation == FARCALL_IO_FLUSH ? files_.flush(asked.file) : files_.perform(asked);
    return late < 0 ? late : result;
  }
  if (asked.operation == farcall_io_op_lock) return lock(asked);
  if (asked.operation == farcall_io_op_read && asked.flags == FARCALL_IO_NOT_AHEAD)
    return files_.read_through(asked);
  if (asked.operation == farcall_io_op_close) {
    const std::lock_guard guard(mutex_);
    open_.erase(asked.file);
    owners_.erase(asked.file);
  }
  if (asked.operation != farcall_io_op_open && asked.operation != farcall_io_op_reopen)
    return files_.perform(asked);
  // The helper can write to the memory of the result at any time.
  farcall_io_opened_status opened{};
  if (asked.result_bytes > sizeof opened) return -EINVAL;
  farcall_io_request own = asked;
  own.result = &opened;
  const std::int64_t result = files_.open_for_mount(own, passed);
  if (result < 0) return result;
  std::memcpy(asked.result, &opened, asked.result_bytes);
  const std::uint64_t file = opened.opened.file;
  try {
    const std::lock_guard guard(mutex_);
    const bool appends = (asked.flags & O_APPEND) != 0;
    open_.emplace(file, open_file{appends, appends, 0});
  } catch (const std::bad_alloc&) {
    (void)files_.close(file);
    return -ENOMEM;
  }
  return result;
}

bool mounted_files::is_cached(std::uint64_t file, int flags) noexcept {
  if ((flags & O_DIRECT) != 0) return false;
  const std::lock_guard guard(mutex_);
  const auto at = open_.find(file);
  return at != open_.end() && !at->second.is_appending;
}

std::int64_t mounted_files::write(std::uint64_t file, int flags, std::span<const std::byte> from,
                                  std::int64_t offset) noexcept {
  const bool appends = (flags & O_APPEND) != 0;
  bool changes = false;
  {
    const std::lock_guard guard(mutex_);
    const auto at = open_.find(file);
    changes = at != open_.end() && std::exchange(at->second.appends, appends) != appends;
  }
  if (changes) {
    const std::int64_t result = files_.set_flags(file, flags & O_APPEND);
    if (result < 0) return result;
  }
  return files_.write(file, from.data(), from.size(), offset);
}

void mounted_files::note_late_error(std::uint64_t file, std::int64_t error) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = open_.find(file);
  if (at != open_.end() && at->second.late_error == 0) at->second.late_error = error;
}

std::int64_t mounted_files::take_late_error(std::uint64_t file) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = open_.find(file);
  return at != open_.end() ? std::exchange(at->second.late_error, 0) : 0;
}

std::int64_t mounted_files::serve(unique_fd device, unique_fd helper, bool reads_ahead) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    // Each prefix has one mount at most.
    if (is_finished_ || devices_.size() >= files_.prefixes().size()) return -EBUSY;
    devices_.reserve(devices_.size() + 1);
    devices_.push_back(
        std::make_unique<mount_device>(*this, std::move(device), std::move(helper), reads_ahead));
    return 0;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EAGAIN;
  }
}

void mounted_files::finish() noexcept {
  std::vector<std::unique_ptr<mount_device>> all;
  {
    const std::lock_guard guard(mutex_);
    is_finished_ = true;
    all.swap(devices_);
  }
  for (const auto& each : all)
    each->finish();
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
  std::map<std::uint64_t, open_file> left;
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
  for (const auto& [file, flags] : left)
    (void)files_.close(file);
}

} // namespace farcall::files
