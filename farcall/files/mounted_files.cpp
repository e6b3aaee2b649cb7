#include <farcall/files/io_socket.h>
#include <farcall/files/mounted_files.hpp>

#include <cerrno>
#include <new>

namespace farcall::files {

std::int64_t mounted_files::perform(const farcall_io_request& asked) noexcept {
  if (asked.operation == FARCALL_IO_FLUSH) return files_.flush(asked.file);
  if (asked.operation == farcall_io_op_close) {
    const std::lock_guard guard(mutex_);
    open_.erase(asked.file);
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

void mounted_files::begin() noexcept {
  const std::lock_guard guard(mutex_);
  ++connections_;
}

void mounted_files::end() noexcept {
  std::set<std::uint64_t> left;
  {
    const std::lock_guard guard(mutex_);
    if (--connections_ == 0) left.swap(open_);
  }
  for (const std::uint64_t file : left)
    (void)files_.close(file);
}

} // namespace farcall::files
