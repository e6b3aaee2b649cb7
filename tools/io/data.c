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
DECLARE_REAL(splice);

/* ---- one call of the host ---- */

/* `call` uses `to`, the table. */
#define FORWARD(what, size, call)                                                                  \
  const struct farcall_io_table* const to_host = enter();                                          \
  if (to_host == NULL) return -1;                                                                  \
  const int64_t result = to_host->call;                                                            \
  leave();                                                                                         \
  count_forwarded(what, size);                                                                     \
  return as_libc(result)

int64_t read_file(struct file* f, void* to, size_t bytes) {
  FORWARD(counted_read, result, read(f->number, to, bytes));
}
int64_t write_file(struct file* f, const void* from, size_t bytes) {
  FORWARD(counted_write, result, write(f->number, from, bytes));
}
int64_t pread_file(struct file* f, void* to, size_t bytes, off_t offset) {
  FORWARD(counted_read, result, pread(f->number, to, bytes, offset));
}
int64_t pwrite_file(struct file* f, const void* from, size_t bytes, off_t offset) {
  FORWARD(counted_write, result, pwrite(f->number, from, bytes, offset));
}
int64_t seek_file(struct file* f, off_t offset, int whence) {
  FORWARD(counted_lseek, 0, seek(f->number, offset, whence));
}
int stat_file(struct file* f, struct farcall_io_status* status) {
  const struct farcall_io_table* const to_host = enter();
  if (to_host == NULL) return -1;
  const int64_t result = to_host->fstat(f->number, status);
  leave();
  count_forwarded(counted_stat, 0);
  return (int)as_libc(result);
}
static int64_t sync_file(struct file* f, int data_only) {
  FORWARD(counted_fsync, 0, fsync(f->number, data_only));
}
static int64_t truncate_file(struct file* f, off_t size) {
  FORWARD(counted_truncate, 0, ftruncate(f->number, size));
}

/* The end of a function: gives `f` up, and errno stays as it is. */
static int64_t done_with(struct file* f, int64_t result) {
  const int why = errno;
  (void)let_go(f);
  errno = why;
  return result;
}

/* ---- plain ---- */

EXPORT ssize_t read(int fd, void* to, size_t bytes) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_read, other_file);
    return REAL(read)(fd, to, bytes);
  }
  return done_with(f, read_file(f, to, bytes));
}

EXPORT ssize_t write(int fd, const void* from, size_t bytes) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_write, other_file);
    return REAL(write)(fd, from, bytes);
  }
  return done_with(f, write_file(f, from, bytes));
}

EXPORT ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_read, other_file);
    return REAL(pread)(fd, to, bytes, offset);
  }
  return done_with(f, pread_file(f, to, bytes, offset));
}
ALSO(pread64, pread);

EXPORT ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  struct file* const f = file_of(fd);
  if (__builtin_expect(f == NULL, 1)) {
    pass(counted_write, other_file);
    return REAL(pwrite)(fd, from, bytes, offset);
  }
  return done_with(f, pwrite_file(f, from, bytes, offset));
}
ALSO(pwrite64, pwrite);

/* ---- as _FORTIFY_SOURCE has it ---- */

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

/* Of one that is gathered, so that it goes in one call. */
enum { most_gathered = 65536 };

static int64_t total_of(const struct iovec* parts, int count) {
  size_t all = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > SSIZE_MAX - all) return -1;
    all += parts[i].iov_len;
  }
  return (int64_t)all;
}

/* offset -1: at the file's position. */
static int64_t read_part(struct file* f, void* to, size_t bytes, off_t offset) {
  return offset == -1 ? read_file(f, to, bytes) : pread_file(f, to, bytes, offset);
}
static int64_t write_part(struct file* f, const void* from, size_t bytes, off_t offset) {
  return offset == -1 ? write_file(f, from, bytes) : pwrite_file(f, from, bytes, offset);
}

/* Between memory of ours and parts that the program has named; how many bytes, as far as the parts
 * are there. */
static int64_t gather(char* to, size_t bytes, const struct iovec* parts, int count) {
  const struct iovec ours = {to, bytes};
  return process_vm_readv(getpid(), &ours, 1, parts, (unsigned long)count, 0);
}
static int64_t scatter(char* from, size_t bytes, const struct iovec* parts, int count) {
  const struct iovec ours = {from, bytes};
  return process_vm_writev(getpid(), &ours, 1, parts, (unsigned long)count, 0);
}

/* All of it in one call of the host. -2: the system refuses to gather. */
static int64_t move_gathered(struct file* f, char* gathered, size_t bytes,
                             const struct iovec* parts, int count, off_t offset, int writes) {
  if (writes) {
    const int64_t there = gather(gathered, bytes, parts, count);
    if (there < 0) return errno == EFAULT ? -1 : -2;
    return write_part(f, gathered, (size_t)there, offset);
  }
  const int64_t got = read_part(f, gathered, bytes, offset);
  if (got <= 0) return got;
  const int64_t put = scatter(gathered, (size_t)got, parts, count);
  const int why = errno;
  /* What has found no place is still to come. */
  if (offset == -1 && put < got) (void)seek_file(f, (put > 0 ? put : 0) - got, SEEK_CUR);
  errno = why;
  return put;
}

static int64_t move_parts(struct file* f, const struct iovec* named, int count, off_t offset,
                          int writes) {
  if (count < 0 || count > IOV_MAX) {
    errno = EINVAL;
    return -1;
  }
  /* The program's own may not be there, and may change. */
  struct iovec parts[IOV_MAX];
  const struct iovec list = {(void*)(uintptr_t)named, (size_t)count * sizeof *named};
  const int64_t copied = count == 0 ? 0 : gather((char*)parts, list.iov_len, &list, 1);
  if (copied < 0 && errno != EFAULT) {
    memcpy(parts, named, list.iov_len);
  } else if (copied != (int64_t)list.iov_len) {
    errno = EFAULT;
    return -1;
  }
  const int64_t all = total_of(parts, count);
  if (all < 0 || offset < -1) {
    errno = EINVAL;
    return -1;
  }
  char* const gathered = count > 1 && all != 0 && all <= most_gathered ? malloc((size_t)all) : NULL;
  if (gathered != NULL) {
    const int64_t result = move_gathered(f, gathered, (size_t)all, parts, count, offset, writes);
    const int why = errno;
    free(gathered);
    errno = why;
    if (result != -2) return result;
  }
  int64_t done = 0;
  for (int i = 0; i < count; ++i) {
    const size_t bytes = parts[i].iov_len;
    if (bytes == 0) continue;
    const off_t at = offset == -1 ? -1 : offset + done;
    const int64_t moved = writes ? write_part(f, parts[i].iov_base, bytes, at)
                                 : read_part(f, parts[i].iov_base, bytes, at);
    if (moved < 0) return done > 0 ? done : -1;
    done += moved;
    if ((size_t)moved < bytes) break;
  }
  return done;
}

EXPORT ssize_t readv(int fd, const struct iovec* parts, int count) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_read, other_file);
    return REAL(readv)(fd, parts, count);
  }
  return done_with(f, move_parts(f, parts, count, -1, 0));
}

EXPORT ssize_t writev(int fd, const struct iovec* parts, int count) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_write, other_file);
    return REAL(writev)(fd, parts, count);
  }
  return done_with(f, move_parts(f, parts, count, -1, 1));
}

/* An offset less than 0 is an error, other than with the flags. */
static int64_t move_at(struct file* f, const struct iovec* parts, int count, off_t offset,
                       int writes) {
  if (offset < 0) {
    errno = EINVAL;
    return -1;
  }
  return move_parts(f, parts, count, offset, writes);
}

EXPORT ssize_t preadv(int fd, const struct iovec* parts, int count, off_t offset) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_read, other_file);
    return REAL(preadv)(fd, parts, count, offset);
  }
  return done_with(f, move_at(f, parts, count, offset, 0));
}
ALSO(preadv64, preadv);

EXPORT ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    pass(counted_write, other_file);
    return REAL(pwritev)(fd, parts, count, offset);
  }
  return done_with(f, move_at(f, parts, count, offset, 1));
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

EXPORT int fsync(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(fsync)(fd) : (int)done_with(f, sync_file(f, 0));
}

EXPORT int fdatasync(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(fdatasync)(fd) : (int)done_with(f, sync_file(f, 1));
}

EXPORT int ftruncate(int fd, off_t size) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(ftruncate)(fd, size) : (int)done_with(f, truncate_file(f, size));
}
ALSO(ftruncate64, ftruncate);

EXPORT int posix_fadvise(int fd, off_t offset, off_t bytes, int advice) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(posix_fadvise)(fd, offset, bytes, advice);
  return (int)done_with(f, 0);
}
ALSO(posix_fadvise64, posix_fadvise);

static int64_t allocate(struct file* f, int mode, off_t offset, off_t bytes) {
  FORWARD(counted_fallocate, 0, allocate(f->number, mode, offset, bytes));
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(fallocate)(fd, mode, offset, bytes);
  return (int)done_with(f, allocate(f, mode, offset, bytes));
}
ALSO(fallocate64, fallocate);

/* It returns what others put into errno, and leaves that alone. */
EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(posix_fallocate)(fd, offset, bytes);
  const int before = errno;
  const int why = done_with(f, allocate(f, 0, offset, bytes)) == 0 ? 0 : errno;
  errno = before;
  return why;
}
ALSO(posix_fallocate64, posix_fallocate);

/* Programs read and write instead. */
EXPORT ssize_t splice(int from, off_t* from_at, int to, off_t* to_at, size_t bytes,
                      unsigned flags) {
  struct file* f = file_of(from);
  if (f == NULL) f = file_of(to);
  if (f == NULL) return REAL(splice)(from, from_at, to, to_at, bytes, flags);
  (void)let_go(f);
  errno = EINVAL;
  return -1;
}
