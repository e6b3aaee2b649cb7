// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/host_files.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/// The functions by which the host performs the operations of io_operations.h. Those for open and
/// close are in host_files.cpp.
namespace farcall::files {
namespace {

/// Maximum number of bytes that one request copies, so that a request does not take long.
constexpr std::uint64_t max_copy_range = std::uint64_t{64} << 20;

template <class T>
std::int64_t result_of(T result) noexcept {
  return result < 0 ? -errno : static_cast<std::int64_t>(result);
}

/// Makes a system call again if a signal interrupted it before it did anything.
template <class Call>
std::int64_t retried(const Call& call) noexcept {
  for (;;) {
    const std::int64_t result = result_of(call());
    if (result != -EINTR) return result;
  }
}

std::int64_t status_of_file(int fd, host_reply& reply) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  reply.put(status_of(s));
  return 0;
}

/// True for a regular file, folder or link; false for a device, pipe or socket.
bool is_plain(const struct stat& s) noexcept {
  return S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || S_ISLNK(s.st_mode);
}

/// Returns a path by which the open file can be named in system calls that accept no O_PATH
/// descriptor.
std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// Checks that the path names a folder, if the path has ended with a slash. Returns 0 if the path
/// names a folder, or has no slash at the end. Returns -ENOTDIR for anything but a folder, and
/// another -errno if the check fails.
std::int64_t check_slash(const access_list::parent& at) {
  if (!at.wants_folder) return 0;
  struct stat s{};
  if (::fstatat(at.folder.get(), at.name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  return S_ISDIR(s.st_mode) ? 0 : -ENOTDIR;
}

/// Opens the parent folder like open_parent(), for a file that is to be made. Returns -EEXIST if
/// the path names a prefix, or ends with a dot.
int open_parent_of_new(const access_list& allowed, std::string_view path, access_list::parent& at) {
  const int why_not = allowed.open_parent(path, at);
  return why_not == -EBUSY || why_not == -EINVAL ? -EEXIST : why_not;
}

std::int64_t remove(const access_list::parent& at, int flags) {
  if (const std::int64_t why_not = check_slash(at); why_not < 0) return why_not;
  return result_of(::unlinkat(at.folder.get(), at.name.c_str(), flags));
}

/// Appends the entry of a folder to `to`, with the file's status. Appends nothing if the file has
/// gone in the meantime.
void append_entry(int folder, const dirent64& from, std::byte*& to) noexcept {
  const std::string_view name = from.d_name;
  farcall_io_entry entry{};
  entry.next = from.d_off;
  entry.bytes = name.size();
  // Begin with what the folder tells. For "." and "..", leave it at that, because the folder above
  // a prefix is outside of it; also for files whose status the host cannot get.
  entry.status.inode = from.d_ino;
  entry.status.mode = static_cast<std::uint64_t>(DTTOIF(from.d_type));
  if (name == "." || name == "..") {
    entry.status.mode = S_IFDIR;
  } else {
    struct stat s{};
    if (::fstatat(folder, from.d_name, &s, AT_SYMLINK_NOFOLLOW) == 0) {
      entry.status = status_of(s);
    } else if (errno == ENOENT) {
      return;
    }
  }
  std::memcpy(to, &entry, sizeof entry);
  to += sizeof entry;
  std::memcpy(to, name.data(), name.size());
  // Clear the bytes up to the next entry, because the memory may hold data of other targets.
  const std::size_t padded = (name.size() + 7) / 8 * 8;
  std::memset(to + name.size(), 0, padded - name.size());
  to += padded;
}

} // namespace

farcall_io_status status_of(const struct stat& s) noexcept {
  farcall_io_status r{};
  r.device = s.st_dev;
  r.inode = s.st_ino;
  r.mode = s.st_mode;
  r.links = s.st_nlink;
  r.user = s.st_uid;
  r.group = s.st_gid;
  r.special = s.st_rdev;
  r.size = s.st_size;
  r.block_size = s.st_blksize;
  r.blocks = s.st_blocks;
  r.accessed = s.st_atim.tv_sec;
  r.accessed_ns = s.st_atim.tv_nsec;
  r.modified = s.st_mtim.tv_sec;
  r.modified_ns = s.st_mtim.tv_nsec;
  r.changed = s.st_ctim.tv_sec;
  r.changed_ns = s.st_ctim.tv_nsec;
  return r;
}

// ---- open files ----

/// True unless a read would return 0 because no process has opened the pipe for writing yet.
bool host_files::has_input(const open_file& file) noexcept {
  if (!file.is_pipe || (::fcntl(file.descriptor.get(), F_GETFL) & O_ACCMODE) == O_WRONLY)
    return true;
  pollfd input{file.descriptor.get(), POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

std::int64_t host_files::read(call& c) {
  const request& what = c.what;
  const std::size_t bytes = std::min<std::uint64_t>(what.bytes, max_piece);
  std::byte* const to = c.reply.reserve(bytes);
  const bool is_piece = what.transfer != 0;
  // Relaxed, because all pieces of one transfer come in one lane, and so are served one after the
  // other.
  if (is_piece && c.file->stopped_read.load(std::memory_order_relaxed) == what.transfer) return 0;
  const std::int64_t done = retried([&]() -> ssize_t {
    if (!has_input(*c.file)) {
      errno = EAGAIN;
      return -1;
    }
    return what.offset == at_position ? ::read(c.fd(), to, bytes)
                                      : ::pread(c.fd(), to, bytes, what.offset);
  });
  if (is_piece && (done < 0 || static_cast<std::uint64_t>(done) < bytes))
    c.file->stopped_read.store(what.transfer, std::memory_order_relaxed);
  return done;
}

std::int64_t host_files::write(call& c) {
  const request& what = c.what;
  const bool is_piece = what.transfer != 0;
  // Relaxed, as in read().
  if (is_piece && c.file->stopped_write.load(std::memory_order_relaxed) == what.transfer) return 0;
  const auto write_from = [&](std::size_t begun) {
    const std::span<const std::byte> left = what.data.subspan(begun);
    return retried([&] {
      return what.offset == at_position ? ::write(c.fd(), left.data(), left.size())
                                        : ::pwrite(c.fd(), left.data(), left.size(),
                                                   what.offset + static_cast<std::int64_t>(begun));
    });
  };
  std::int64_t done = write_from(0);
  if ((what.flags & write_flags::whole) != 0) {
    while (done > 0 && static_cast<std::size_t>(done) < what.data.size()) {
      const std::int64_t more = write_from(static_cast<std::size_t>(done));
      done = more > 0 ? done + more : more < 0 ? more : -EIO;
    }
  }
  if (is_piece && (done < 0 || static_cast<std::uint64_t>(done) < what.data.size()))
    c.file->stopped_write.store(what.transfer, std::memory_order_relaxed);
  return done;
}

std::int64_t host_files::seek(call& c) {
  return result_of(::lseek(c.fd(), c.what.offset, static_cast<int>(c.what.flags)));
}

std::int64_t host_files::set_flags(call& c) {
  // Pipes and devices keep O_NONBLOCK, as in give().
  const int kept = c.file->is_regular ? 0 : O_NONBLOCK;
  return result_of(::fcntl(c.fd(), F_SETFL, to_system_flags(c.what.flags) | kept));
}

std::int64_t host_files::fstat(call& c) { return status_of_file(c.fd(), c.reply); }

std::int64_t host_files::ftruncate(call& c) {
  return retried([&] { return ::ftruncate(c.fd(), c.what.offset); });
}

std::int64_t host_files::fsync(call& c) {
  return retried([&] { return c.what.flags != 0 ? ::fdatasync(c.fd()) : ::fsync(c.fd()); });
}

std::int64_t host_files::list(call& c) {
  const std::size_t bytes = std::min<std::uint64_t>(c.what.bytes, max_piece);
  return result_of(::syscall(SYS_getdents64, c.fd(), c.reply.reserve(bytes), bytes));
}

std::int64_t host_files::allocate(call& c) {
  return retried([&] {
    return ::fallocate(c.fd(), static_cast<int>(c.what.flags), c.what.offset,
                       static_cast<off_t>(c.what.bytes));
  });
}

std::int64_t host_files::list_status(call& c) {
  // Entries of the system have at least 24 bytes, and each becomes an entry of at most 8 times its
  // size, so that all of them fit.
  static_assert(sizeof(farcall_io_entry) + 8 <= std::size_t{8} * 24);
  const std::size_t bytes = std::min<std::uint64_t>(c.what.bytes, max_piece);
  std::vector<std::byte> listed(bytes / 8);
  std::byte* const begin = c.reply.reserve(bytes);
  if (c.what.offset != at_position && ::lseek(c.fd(), c.what.offset, SEEK_SET) < 0) return -errno;
  for (;;) {
    const long got = ::syscall(SYS_getdents64, c.fd(), listed.data(), listed.size());
    if (got <= 0) return result_of(got);
    std::byte* end = begin;
    for (long at = 0; at < got;) {
      const auto& from = *reinterpret_cast<const dirent64*>(listed.data() + at);
      append_entry(c.fd(), from, end);
      at += from.d_reclen;
    }
    // Read on if all of these files have gone, because 0 would mean the folder's end.
    if (end != begin) return end - begin;
  }
}

std::int64_t host_files::link_open(call& c) {
  if (const std::int64_t mode = changeable_mode(c); mode < 0) return mode;
  access_list::parent to;
  if (const int why_not = open_parent_of_new(allowed_, c.what.path, to); why_not < 0)
    return why_not;
  if (to.wants_folder) return -ENOENT;
  return result_of(::linkat(AT_FDCWD, path_of(c.fd()).c_str(), to.folder.get(), to.name.c_str(),
                            AT_SYMLINK_FOLLOW));
}

std::int64_t host_files::lock(call& c) {
  farcall_io_lock wanted{};
  if (c.what.data.size() != sizeof wanted) return -EINVAL;
  std::memcpy(&wanted, c.what.data.data(), sizeof wanted);
  if (wanted.type != F_RDLCK && wanted.type != F_WRLCK && wanted.type != F_UNLCK) return -EINVAL;
  farcall_io_lock found = wanted;
  std::int64_t result = -EINVAL;
  if (c.what.flags == FARCALL_IO_LOCK_WHOLE) {
    const int kind = wanted.type == F_RDLCK ? LOCK_SH : wanted.type == F_WRLCK ? LOCK_EX : LOCK_UN;
    result = result_of(::flock(c.fd(), kind | LOCK_NB));
  } else if (c.what.flags <= FARCALL_IO_LOCK_SET) {
    const std::shared_ptr<host_locks> locks = locks_of(c.node);
    if (locks == nullptr) return -EIO;
    result = locks->perform(c.fd(), c.file->is_writable, static_cast<int>(c.what.flags), wanted,
                            found, share(c.job).locks);
  }
  if (result >= 0) c.reply.put(found);
  return result;
}

std::int64_t host_files::copy_range(call& c) {
  farcall_io_source source{};
  if (c.what.data.size() != sizeof source) return -EINVAL;
  std::memcpy(&source, c.what.data.data(), sizeof source);
  const file_ref from = find(c.node, source.file);
  if (from == nullptr) return -EBADF;
  loff_t at = source.offset;
  loff_t to = c.what.offset;
  return retried([&] {
    return ::copy_file_range(from->descriptor.get(), &at, c.fd(), &to,
                             std::min<std::uint64_t>(c.what.bytes, max_copy_range), 0);
  });
}

// ---- open files or paths ----

std::int64_t host_files::changeable_mode(const call& c) const {
  const bool is_writable =
      c.file != nullptr ? c.file->is_writable : allowed_.is_writable(c.what.path);
  if (!is_writable) return -EACCES;
  struct stat s{};
  if (::fstat(c.fd(), &s) != 0) return -errno;
  return is_plain(s) ? std::int64_t{s.st_mode} : -EACCES;
}

std::int64_t host_files::set_mode(call& c) {
  const std::int64_t mode = changeable_mode(c);
  if (mode < 0) return mode;
  // Refuse the setuid and setgid bits, because programs with these bits run with the rights of the
  // file's owner, who is the host's user.
  if (!S_ISDIR(static_cast<mode_t>(mode)) && (c.what.mode & (S_ISUID | S_ISGID)) != 0)
    return -EPERM;
  return result_of(::chmod(path_of(c.fd()).c_str(), c.what.mode & 07777));
}

std::int64_t host_files::set_owner(call& c) {
  if (const std::int64_t mode = changeable_mode(c); mode < 0) return mode;
  return result_of(::fchownat(c.fd(), "", static_cast<uid_t>(c.what.bytes),
                              static_cast<gid_t>(c.what.offset), AT_EMPTY_PATH));
}

std::int64_t host_files::set_times(call& c) {
  if (const std::int64_t mode = changeable_mode(c); mode < 0) return mode;
  farcall_io_times times{};
  if (c.what.data.size() != sizeof times) return -EINVAL;
  std::memcpy(&times, c.what.data.data(), sizeof times);
  const std::array<timespec, 2> both{timespec{times.accessed, times.accessed_ns},
                                     timespec{times.modified, times.modified_ns}};
  return result_of(::utimensat(AT_FDCWD, path_of(c.fd()).c_str(), both.data(), 0));
}

std::int64_t host_files::space(call& c) {
  struct statvfs s{};
  struct statfs t{};
  if (::fstatvfs(c.fd(), &s) != 0 || ::fstatfs(c.fd(), &t) != 0) return -errno;
  farcall_io_space r{};
  r.type = static_cast<std::uint64_t>(t.f_type);
  r.block_size = s.f_bsize;
  r.fragment_size = s.f_frsize;
  r.blocks = s.f_blocks;
  r.free_blocks = s.f_bfree;
  r.available_blocks = s.f_bavail;
  r.files = s.f_files;
  r.free_files = s.f_ffree;
  r.available_files = s.f_favail;
  r.device = s.f_fsid;
  r.flags = s.f_flag;
  r.max_name = s.f_namemax;
  c.reply.put(r);
  return 0;
}

// ---- paths ----

std::int64_t host_files::stat(call& c) {
  const unique_fd name(allowed_.open_name(c.what.path, c.what.flags != 0));
  return name ? status_of_file(name.get(), c.reply) : name.get();
}

std::int64_t host_files::access(call& c) {
  const unique_fd name(allowed_.open_name(c.what.path, true));
  if (!name) return name.get();
  if ((c.what.flags & W_OK) != 0 && !allowed_.is_writable(c.what.path)) return -EACCES;
  return result_of(::access(path_of(name.get()).c_str(), static_cast<int>(c.what.flags)));
}

std::int64_t host_files::truncate(call& c) {
  // The target tries again if the file has a lease.
  const unique_fd file(allowed_.open(c.what.path, O_WRONLY | O_NONBLOCK, 0));
  if (!file) return file.get();
  return retried([&] { return ::ftruncate(file.get(), c.what.offset); });
}

std::int64_t host_files::unlink(call& c) {
  access_list::parent at;
  if (const int why_not = allowed_.open_parent(c.what.path, at); why_not < 0)
    return why_not == -EBUSY ? -EISDIR : why_not;
  return remove(at, 0);
}

std::int64_t host_files::rmdir(call& c) {
  access_list::parent at;
  if (const int why_not = allowed_.open_parent(c.what.path, at); why_not < 0) return why_not;
  return remove(at, AT_REMOVEDIR);
}

std::int64_t host_files::mkdir(call& c) {
  access_list::parent at;
  if (const int why_not = open_parent_of_new(allowed_, c.what.path, at); why_not < 0)
    return why_not;
  return result_of(::mkdirat(at.folder.get(), at.name.c_str(), c.what.mode & 07777));
}

std::int64_t host_files::rename(call& c) {
  constexpr std::uint32_t known = RENAME_NOREPLACE | RENAME_EXCHANGE;
  if ((c.what.flags & ~known) != 0) return -EINVAL;
  access_list::parent from;
  access_list::parent to;
  if (const int why_not = allowed_.open_parent(c.what.path, from); why_not < 0) return why_not;
  if (const int why_not = allowed_.open_parent(c.what.to, to); why_not < 0) return why_not;
  from.wants_folder = from.wants_folder || to.wants_folder;
  if (const std::int64_t why_not = check_slash(from); why_not < 0) return why_not;
  return result_of(::renameat2(from.folder.get(), from.name.c_str(), to.folder.get(),
                               to.name.c_str(), c.what.flags));
}

std::int64_t host_files::read_link(call& c) {
  const unique_fd name(allowed_.open_name(c.what.path, false));
  if (!name) return name.get();
  const std::size_t bytes = std::min<std::uint64_t>(c.what.bytes, PATH_MAX);
  const std::int64_t got = result_of(
      ::readlinkat(name.get(), "", reinterpret_cast<char*>(c.reply.reserve(bytes)), bytes));
  // The call fails with ENOENT if the path names something other than a link. Return EINVAL, as the
  // kernel does for readlink().
  return got == -ENOENT ? -EINVAL : got;
}

std::int64_t host_files::link(call& c) {
  // Refuse a link to a file that is read-only for targets, because they could write to the file
  // under the new name.
  if (!allowed_.is_writable(c.what.path)) return -EACCES;
  const unique_fd from(allowed_.open_name(c.what.path, c.what.flags != 0));
  if (!from) return from.get();
  struct stat s{};
  if (::fstat(from.get(), &s) != 0) return -errno;
  if (!is_plain(s)) return -EACCES;
  access_list::parent to;
  if (const int why_not = open_parent_of_new(allowed_, c.what.to, to); why_not < 0) return why_not;
  if (to.wants_folder) return -ENOENT;
  return result_of(::linkat(AT_FDCWD, path_of(from.get()).c_str(), to.folder.get(), to.name.c_str(),
                            AT_SYMLINK_FOLLOW));
}

std::int64_t host_files::symlink(call& c) {
  access_list::parent at;
  if (const int why_not = open_parent_of_new(allowed_, c.what.path, at); why_not < 0)
    return why_not;
  if (at.wants_folder) return -ENOENT;
  // Don't check the text of the link. It may name any path, because every later open through the
  // link is checked against the prefixes.
  return result_of(::symlinkat(std::string(c.what.to).c_str(), at.folder.get(), at.name.c_str()));
}

} // namespace farcall::files
