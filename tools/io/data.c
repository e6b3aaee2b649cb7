// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

DECLARE_REAL(read);
DECLARE_REAL(write);
DECLARE_REAL(pread);
DECLARE_REAL(pwrite);
DECLARE_REAL(readv);
DECLARE_REAL(writev);
DECLARE_REAL(preadv);
DECLARE_REAL(pwritev);
DECLARE_REAL(preadv2);
DECLARE_REAL(pwritev2);
DECLARE_REAL(lseek);
DECLARE_REAL(fsync);
DECLARE_REAL(fdatasync);
DECLARE_REAL(ftruncate);
DECLARE_REAL(posix_fadvise);
DECLARE_REAL(fallocate);
DECLARE_REAL(posix_fallocate);
DECLARE_REAL(sync_file_range);
DECLARE_REAL(readahead);
DECLARE_REAL(syncfs);

/* ---- calls that the host performs in one operation ---- */

int64_t read_file(struct file* f, void* to, size_t bytes, off_t offset) {
  const int64_t result = host_read(f->number, to, bytes, offset);
  count_forwarded(counted_read, result);
  return result;
}
/* Writes like read_file() reads. */
static int64_t write_file(struct file* f, const void* from, size_t bytes, off_t offset) {
  const int64_t result = host_write(f->number, from, bytes, offset);
  count_forwarded(counted_write, result);
  return result;
}
int64_t seek_file(struct file* f, off_t offset, int whence) {
  const int64_t result = host_seek(f->number, offset, whence);
  count_forwarded(counted_lseek, 0);
  return result;
}
int stat_file(struct file* f, struct farcall_io_status* status) {
  return forwarded(counted_stat, host_fstat(f->number, status));
}

/* Checks the offset of a call that does not use the file's position. Returns 0 and sets EINVAL if
 * the offset is negative. */
static int is_offset(off_t offset) {
  if (offset >= 0) return 1;
  errno = EINVAL;
  return 0;
}

/* ---- plain ---- */

EXPORT ssize_t read(int fd, void* to, size_t bytes) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_read, other_file);
    return REAL(read)(fd, to, bytes);
  }
  return done_with(f, read_file(f, to, bytes, FARCALL_IO_AT_POSITION));
}

EXPORT ssize_t write(int fd, const void* from, size_t bytes) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_write, other_file);
    return REAL(write)(fd, from, bytes);
  }
  return done_with(f, write_file(f, from, bytes, FARCALL_IO_AT_POSITION));
}

EXPORT ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_read, other_file);
    return REAL(pread)(fd, to, bytes, offset);
  }
  return done_with(f, is_offset(offset) ? read_file(f, to, bytes, offset) : -1);
}
ALSO(pread64, pread);

EXPORT ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_write, other_file);
    return REAL(pwrite)(fd, from, bytes, offset);
  }
  return done_with(f, is_offset(offset) ? write_file(f, from, bytes, offset) : -1);
}
ALSO(pwrite64, pwrite);

/* ---- for _FORTIFY_SOURCE ---- */

EXPORT ssize_t __read_chk(int fd, void* to, size_t bytes, size_t there);
ssize_t __read_chk(int fd, void* to, size_t bytes, size_t there) {
  if (bytes > there) abort();
  return read(fd, to, bytes);
}
EXPORT ssize_t __pread_chk(int fd, void* to, size_t bytes, off_t offset, size_t there);
ssize_t __pread_chk(int fd, void* to, size_t bytes, off_t offset, size_t there) {
  if (bytes > there) abort();
  return pread(fd, to, bytes, offset);
}
EXPORT ssize_t __pread64_chk(int fd, void* to, size_t bytes, off_t offset, size_t there);
ALSO(__pread64_chk, __pread_chk);

/* ---- vectors ---- */

static int64_t total_of(const struct iovec* parts, int count) {
  size_t all = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > SSIZE_MAX - all) return -1;
    all += parts[i].iov_len;
  }
  return (int64_t)all;
}

/* These two functions copy from the program's vectors into the library's buffer, and from the
 * buffer into the vectors. They return the number of bytes that were copied before the first
 * address that is not mapped, or -1 with EFAULT if this is the first address. If the system refuses
 * the calls (seccomp), the library checks the addresses and copies by itself. */
static int64_t gather(char* to, size_t bytes, const struct iovec* parts, int count) {
  const struct iovec ours = {to, bytes};
  int64_t done = process_vm_readv(getpid(), &ours, 1, parts, (unsigned long)count, 0);
  if (done >= 0 || errno == EFAULT) return done;
  done = 0;
  for (int i = 0; i < count && (size_t)done < bytes; ++i) {
    const size_t left = bytes - (size_t)done;
    const size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
    if (n == 0) continue;
    if (!is_readable(parts[i].iov_base, n)) return done > 0 ? done : -1;
    memcpy(to + done, parts[i].iov_base, n);
    done += (int64_t)n;
  }
  return done;
}
static int64_t scatter(const char* from, size_t bytes, const struct iovec* parts, int count) {
  const struct iovec ours = {(void*)(uintptr_t)from, bytes};
  int64_t done = process_vm_writev(getpid(), &ours, 1, parts, (unsigned long)count, 0);
  if (done >= 0 || errno == EFAULT) return done;
  done = 0;
  for (int i = 0; i < count && (size_t)done < bytes; ++i) {
    const size_t left = bytes - (size_t)done;
    const size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
    if (n == 0) continue;
    if (!is_space(parts[i].iov_base, n)) return done > 0 ? done : -1;
    memcpy(parts[i].iov_base, from + done, n);
    done += (int64_t)n;
  }
  return done;
}

/* Removes bytes that were moved from the beginning of a list of parts. */
static void advance(struct iovec** parts, int* count, size_t moved) {
  while (*count > 0 && moved >= (*parts)->iov_len) {
    moved -= (*parts)->iov_len;
    ++*parts;
    --*count;
  }
  if (*count == 0) return;
  (*parts)->iov_base = (char*)(*parts)->iov_base + moved;
  (*parts)->iov_len -= moved;
}

/* Reads or writes the first parts of a list by one operation of the host, by way of the buffer
 * `gathered`. */
static int64_t move_gathered(struct file* f, char* gathered, size_t bytes,
                             const struct iovec* parts, int count, off_t offset, int writes) {
  if (writes) {
    const int64_t there = gather(gathered, bytes, parts, count);
    return there < 0 ? -1 : write_file(f, gathered, (size_t)there, offset);
  }
  const int64_t got = read_file(f, gathered, bytes, offset);
  if (got <= 0) return got;
  const int64_t put = scatter(gathered, (size_t)got, parts, count);
  const int why = errno;
  /* If some of the bytes could not be copied to the program's memory, set the file's position back
   * to the first of these bytes. */
  if (offset == FARCALL_IO_AT_POSITION && put < got)
    (void)seek_file(f, (put > 0 ? put : 0) - got, SEEK_CUR);
  errno = why;
  return put;
}

/* Moves a piece of the list of parts, which is not empty: the first part, if it is large or the
 * only one, or else as many bytes as fit into the buffer. `wanted` is set to the piece's size. */
static int64_t move_piece(struct file* f, char* gathered, const struct iovec* parts, int count,
                          size_t left, off_t offset, int writes, size_t* wanted) {
  *wanted = parts->iov_len;
  if (count > 1 && parts->iov_len < buffer_bytes && gathered != NULL) {
    *wanted = left < buffer_bytes ? left : buffer_bytes;
    return move_gathered(f, gathered, *wanted, parts, count, offset, writes);
  }
  return writes ? write_file(f, parts->iov_base, *wanted, offset)
                : read_file(f, parts->iov_base, *wanted, offset);
}

/* Moves all parts, in as few operations of the host as possible. */
static int64_t move_all(struct file* f, struct iovec* parts, int count, size_t all, off_t offset,
                        int writes) {
  char* const gathered = count > 1 && all > 0 ? take_buffer() : NULL;
  int64_t done = 0;
  while ((size_t)done < all) {
    const off_t at = offset == FARCALL_IO_AT_POSITION ? offset : offset + done;
    size_t wanted = 0;
    advance(&parts, &count, 0); /* drops empty parts */
    const int64_t moved =
        move_piece(f, gathered, parts, count, all - (size_t)done, at, writes, &wanted);
    if (moved < 0 && done == 0) done = -1;
    if (moved < 0) break;
    done += moved;
    if ((size_t)moved < wanted) break;
    advance(&parts, &count, (size_t)moved);
  }
  return_buffer(gathered);
  return done;
}

static int64_t move_parts(struct file* f, const struct iovec* named, int count, off_t offset,
                          int writes) {
  if (count < 0 || count > IOV_MAX) {
    errno = EINVAL;
    return -1;
  }
  /* Copy the program's list first. It may be at a bad address, which must fail with EFAULT, and
   * other threads may change it during the call. */
  SPACE(space);
  struct iovec* const parts = (struct iovec*)(void*)reserve(&space, (size_t)count * sizeof *parts);
  if (parts == NULL) return -1;
  const struct iovec list = {(void*)(uintptr_t)named, (size_t)count * sizeof *named};
  if (count > 0 && gather((char*)parts, list.iov_len, &list, 1) != (int64_t)list.iov_len) {
    errno = EFAULT;
    return -1;
  }
  const int64_t all = total_of(parts, count);
  if (all < 0 || offset < FARCALL_IO_AT_POSITION) {
    errno = EINVAL;
    return -1;
  }
  return move_all(f, parts, count, (size_t)all, offset, writes);
}

EXPORT ssize_t readv(int fd, const struct iovec* parts, int count) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_read, other_file);
    return REAL(readv)(fd, parts, count);
  }
  return done_with(f, move_parts(f, parts, count, FARCALL_IO_AT_POSITION, 0));
}

EXPORT ssize_t writev(int fd, const struct iovec* parts, int count) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_write, other_file);
    return REAL(writev)(fd, parts, count);
  }
  return done_with(f, move_parts(f, parts, count, FARCALL_IO_AT_POSITION, 1));
}

EXPORT ssize_t preadv(int fd, const struct iovec* parts, int count, off_t offset) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_read, other_file);
    return REAL(preadv)(fd, parts, count, offset);
  }
  return done_with(f, is_offset(offset) ? move_parts(f, parts, count, offset, 0) : -1);
}
ALSO(preadv64, preadv);

EXPORT ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_write, other_file);
    return REAL(pwritev)(fd, parts, count, offset);
  }
  return done_with(f, is_offset(offset) ? move_parts(f, parts, count, offset, 1) : -1);
}
ALSO(pwritev64, pwritev);

static int64_t move_with_flags(struct file* f, const struct iovec* parts, int count, off_t offset,
                               int flags, int writes) {
  if ((flags & ~RWF_HIPRI) != 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return move_parts(f, parts, count, offset, writes);
}

EXPORT ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_read, other_file);
    return REAL(preadv2)(fd, parts, count, offset, flags);
  }
  return done_with(f, move_with_flags(f, parts, count, offset, flags, 0));
}
ALSO(preadv64v2, preadv2);

EXPORT ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_write, other_file);
    return REAL(pwritev2)(fd, parts, count, offset, flags);
  }
  return done_with(f, move_with_flags(f, parts, count, offset, flags, 1));
}
ALSO(pwritev64v2, pwritev2);

/* ---- positions, sizes ---- */

EXPORT off_t lseek(int fd, off_t offset, int whence) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(lseek)(fd, offset, whence);
  return done_with(f, seek_file(f, offset, whence));
}
ALSO(lseek64, lseek);

static int64_t sync_file(struct file* f, int data_only) {
  return done_with(f, forwarded(counted_fsync, host_fsync(f->number, data_only)));
}

EXPORT int fsync(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(fsync)(fd) : (int)sync_file(f, 0);
}

EXPORT int fdatasync(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(fdatasync)(fd) : (int)sync_file(f, 1);
}

EXPORT int sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(sync_file_range)(fd, offset, bytes, flags);
  const unsigned waits = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (offset < 0 || bytes < 0 || (flags & ~(waits | SYNC_FILE_RANGE_WRITE)) != 0) {
    errno = EINVAL;
    return (int)done_with(f, -1);
  }
  /* The host has no such operation. A call that waits gets the stronger one, for all bytes. */
  return (int)((flags & waits) != 0 ? sync_file(f, 1) : done_with(f, 0));
}

EXPORT int syncfs(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(syncfs)(fd) : (int)sync_file(f, 0);
}

EXPORT ssize_t readahead(int fd, off_t offset, size_t bytes) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(readahead)(fd, offset, bytes) : (ssize_t)done_with(f, 0);
}

EXPORT int ftruncate(int fd, off_t size) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(ftruncate)(fd, size);
  return (int)done_with(f, forwarded(counted_truncate, host_ftruncate(f->number, size)));
}
ALSO(ftruncate64, ftruncate);

EXPORT int posix_fadvise(int fd, off_t offset, off_t bytes, int advice) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(posix_fadvise)(fd, offset, bytes, advice);
  const int is_known = advice >= POSIX_FADV_NORMAL && advice <= POSIX_FADV_NOREUSE;
  return (int)done_with(f, is_known && bytes >= 0 ? 0 : EINVAL);
}
ALSO(posix_fadvise64, posix_fadvise);

static int allocate(struct file* f, int mode, off_t offset, off_t bytes) {
  return forwarded(counted_fallocate, host_allocate(f->number, mode, offset, (uint64_t)bytes));
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(fallocate)(fd, mode, offset, bytes);
  return (int)done_with(f, allocate(f, mode, offset, bytes));
}
ALSO(fallocate64, fallocate);

/* Allocates by writing a zero byte to each block that has none, as libc does if the file system has
 * no fallocate(). Returns 0, or -1 with errno. */
static int allocate_by_writing(struct file* f, off_t offset, off_t bytes) {
  enum { block = 4096 };
  struct farcall_io_status s;
  const int flags = atomic_load_explicit(&f->flags, memory_order_relaxed);
  if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_APPEND) != 0) {
    errno = EBADF;
    return -1;
  }
  if (host_fstat(f->number, &s) < 0) return -1;
  /* Begin in the first block so that the last step is at the last byte of the range. */
  for (off_t at = offset + (bytes - 1) % block; at < offset + bytes; at += block) {
    char byte = 0;
    if (at < s.size && host_read(f->number, &byte, 1, at) < 0) return -1;
    if (byte == 0 && host_write(f->number, &byte, 1, at) < 0) return -1;
  }
  return 0;
}

/* Unlike other calls, posix_fallocate() returns the error number, and does not change errno. */
EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(posix_fallocate)(fd, offset, bytes);
  const int before = errno;
  int result = allocate(f, 0, offset, bytes);
  if (result != 0 && errno == EOPNOTSUPP) result = allocate_by_writing(f, offset, bytes);
  const int why = done_with(f, result) == 0 ? 0 : errno;
  errno = before;
  return why;
}
ALSO(posix_fallocate64, posix_fallocate);

/* ---- other names ---- */

EXPORT ssize_t __read(int fd, void* to, size_t bytes);
ALSO(__read, read);
EXPORT ssize_t __write(int fd, const void* from, size_t bytes);
ALSO(__write, write);
EXPORT ssize_t __pread64(int fd, void* to, size_t bytes, off_t offset);
ALSO(__pread64, pread);
EXPORT ssize_t __pwrite64(int fd, const void* from, size_t bytes, off_t offset);
ALSO(__pwrite64, pwrite);
EXPORT off_t __lseek(int fd, off_t offset, int whence);
off_t __lseek(int fd, off_t offset, int whence) { return lseek(fd, offset, whence); }
EXPORT off_t llseek(int fd, off_t offset, int whence);
off_t llseek(int fd, off_t offset, int whence) { return lseek(fd, offset, whence); }
