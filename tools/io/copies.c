// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

DECLARE_REAL(sendfile);
DECLARE_REAL(copy_file_range);
DECLARE_REAL(mmap);

/* True if the memory of an offset can be read and written to. Otherwise sets EFAULT. A null pointer
 * is no error. */
static int is_offset(off_t* at) {
  if (at == NULL) return 1;
  if (!is_readable(at, sizeof *at)) return 0;
  const off_t kept = *at;
  if (!is_space(at, sizeof *at)) return 0;
  *at = kept;
  return 1;
}

/* Copies from one descriptor to another by reads and writes. A null offset means the file's own
 * position. */
static ssize_t copy(int from, off_t* from_at, int to, off_t* to_at, size_t bytes) {
  char* const buffer = take_buffer();
  if (buffer == NULL) return -1;
  ssize_t done = 0;
  int why = errno;
  while ((size_t)done < bytes) {
    const size_t left = bytes - (size_t)done;
    const size_t wanted = left < buffer_bytes ? left : buffer_bytes;
    const ssize_t got =
        from_at != NULL ? pread(from, buffer, wanted, *from_at) : read(from, buffer, wanted);
    ssize_t put = got;
    if (got > 0)
      put =
          to_at != NULL ? pwrite(to, buffer, (size_t)got, *to_at) : write(to, buffer, (size_t)got);
    why = errno;
    /* If fewer bytes were written than read, set the position of the source back to the first
     * byte that was not written. */
    if (got > 0 && from_at == NULL && put < got)
      (void)lseek(from, (put > 0 ? put : 0) - got, SEEK_CUR);
    if (put <= 0) {
      if (put < 0 && done == 0) done = -1;
      break;
    }
    if (from_at != NULL) *from_at += put;
    if (to_at != NULL) *to_at += put;
    done += put;
    if (put < (ssize_t)wanted) break;
  }
  return_buffer(buffer);
  errno = why;
  return done;
}

/* Checks the files of a copy as the kernel does. Returns 0, or -1 with errno. */
static int check_copy(int from, const off_t* from_at, int to, const off_t* to_at, size_t bytes) {
  struct stat source;
  struct stat target;
  if (fstat(from, &source) != 0 || fstat(to, &target) != 0) return -1;
  errno = S_ISDIR(source.st_mode) || S_ISDIR(target.st_mode) ? EISDIR : EINVAL;
  if (!S_ISREG(source.st_mode) || !S_ISREG(target.st_mode)) return -1;
  errno = EBADF;
  const int flags = fcntl(to, F_GETFL);
  if ((fcntl(from, F_GETFL) & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDONLY ||
      (flags & O_APPEND) != 0)
    return -1;
  if (source.st_dev != target.st_dev || source.st_ino != target.st_ino) return 0;
  const off_t begin = from_at != NULL ? *from_at : lseek(from, 0, SEEK_CUR);
  const off_t there = to_at != NULL ? *to_at : lseek(to, 0, SEEK_CUR);
  const off_t apart = begin < there ? there - begin : begin - there;
  /* Only bytes up to the end of the file are copied. */
  const size_t left = begin < source.st_size ? (size_t)(source.st_size - begin) : 0;
  if (left < bytes) bytes = left;
  errno = EINVAL;
  return (size_t)apart < bytes ? -1 : 0;
}

EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t bytes) {
  if (!is_hosts_descriptor(to) && !is_hosts_descriptor(from))
    return REAL(sendfile)(to, from, offset, bytes);
  struct stat source;
  if (!is_offset(offset)) return -1;
  if (fstat(from, &source) != 0) return -1;
  const int flags = fcntl(to, F_GETFL);
  const int appends = (flags & O_APPEND) != 0 && (flags & O_ACCMODE) != O_RDONLY;
  if (!S_ISREG(source.st_mode) || appends) {
    errno = EINVAL;
    return -1;
  }
  const ssize_t done = copy(from, offset, to, NULL, bytes);
  count_forwarded(counted_sendfile, done);
  return done;
}
ALSO(sendfile64, sendfile);

EXPORT ssize_t copy_file_range(int from, off_t* from_at, int to, off_t* to_at, size_t bytes,
                               unsigned flags) {
  if (!is_hosts_descriptor(to) && !is_hosts_descriptor(from))
    return REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
  if (flags != 0) {
    errno = EINVAL;
    return -1;
  }
  if (!is_offset(from_at) || !is_offset(to_at)) return -1;
  if (check_copy(from, from_at, to, to_at, bytes) != 0) return -1;
  const ssize_t done = copy(from, from_at, to, to_at, bytes);
  count_forwarded(counted_copy_file_range, done);
  return done;
}

/* Makes a private mapping as anonymous memory with a copy of the file's present content. A
 * shared mapping is refused, because later changes would have to reach the file. */
static void* map_copy(struct file* f, void* where, size_t bytes, int protection, int flags,
                      off_t offset) {
  const int type = flags & MAP_TYPE;
  const int access = atomic_load(&f->flags) & O_ACCMODE;
  if (offset < 0 || offset % sysconf(_SC_PAGESIZE) != 0 ||
      (type != MAP_PRIVATE && type != MAP_SHARED && type != MAP_SHARED_VALIDATE)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (access == O_WRONLY ||
      (type != MAP_PRIVATE && (protection & PROT_WRITE) != 0 && access != O_RDWR)) {
    errno = EACCES;
    return MAP_FAILED;
  }
  if (type != MAP_PRIVATE || !S_ISREG(f->mode)) {
    pass(counted_mmap, not_offered);
    errno = ENODEV;
    return MAP_FAILED;
  }
  char* const made = REAL(mmap)(where, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return MAP_FAILED;
  size_t done = 0;
  while (done < bytes) {
    const int64_t got = read_file(f, made + done, bytes - done, offset + (off_t)done);
    if (got < 0) {
      const int why = errno;
      (void)munmap(made, bytes);
      errno = why;
      return MAP_FAILED;
    }
    if (got == 0) break;
    done += (size_t)got;
  }
  (void)mprotect(made, bytes, protection);
  count_forwarded(counted_mmap, (int64_t)done);
  return made;
}

EXPORT void* mmap(void* where, size_t bytes, int protection, int flags, int fd, off_t offset) {
  struct file* const f = (flags & MAP_ANONYMOUS) != 0 ? NULL : file_of(fd);
  if (f == NULL) return REAL(mmap)(where, bytes, protection, flags, fd, offset);
  void* const made = map_copy(f, where, bytes, protection, flags, offset);
  (void)done_with(f, 0);
  return made;
}
ALSO(mmap64, mmap);
