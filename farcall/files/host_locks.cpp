// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/host_locks.hpp>

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

namespace farcall::files {
namespace {

/// Opens the file of a descriptor again, as a file description of its own. Opens it for reading and
/// writing if that is possible, because the owner may have opened the file in both ways. Returns a
/// duplicate if the file cannot be opened again, for instance because its mode has changed.
unique_fd open_again(int file, bool is_writable) {
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const auto open_as = [&](int flags) {
    return unique_fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  };
  if (is_writable) {
    if (unique_fd both = open_as(O_RDWR)) return both;
  }
  if (unique_fd same = open_as(::fcntl(file, F_GETFL) & O_ACCMODE)) return same;
  return unique_fd(::fcntl(file, F_DUPFD_CLOEXEC, 0));
}

} // namespace

std::int64_t host_locks::perform(int file, bool is_writable, int command,
                                 const farcall_io_lock& wanted, farcall_io_lock& found,
                                 std::size_t most) {
  struct stat s{};
  if (::fstat(file, &s) != 0) return -errno;
  struct flock lock{};
  lock.l_type = static_cast<short>(wanted.type);
  lock.l_whence = SEEK_SET;
  lock.l_start = wanted.start;
  lock.l_len = wanted.bytes;
  const bool removes = wanted.type == F_UNLCK;
  const bool removes_all = removes && wanted.start == 0 && wanted.bytes == 0;
  found = wanted;

  const std::lock_guard guard(mutex_);
  const key of{s.st_dev, s.st_ino, wanted.owner};
  auto at = held_.find(of);
  if (command == FARCALL_IO_LOCK_SET && removes && at == held_.end()) return 0;
  unique_fd fresh;
  if (at == held_.end()) {
    if (held_.size() >= most) return -ENOLCK;
    fresh = open_again(file, is_writable);
    if (!fresh) return -errno;
    keep_spare_descriptors(fresh.get());
  }
  const int own = at != held_.end() ? at->second.get() : fresh.get();
  if (::fcntl(own, command == FARCALL_IO_LOCK_TEST ? F_OFD_GETLK : F_OFD_SETLK, &lock) != 0)
    return -errno;
  found.type = lock.l_type;
  found.start = lock.l_start;
  found.bytes = lock.l_len;
  if (command == FARCALL_IO_LOCK_TEST) return 0;
  if (removes_all) {
    held_.erase(at);
  } else if (fresh) {
    held_.emplace(of, std::move(fresh));
  }
  return 0;
}

} // namespace farcall::files
