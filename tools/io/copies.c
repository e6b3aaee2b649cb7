#include "io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

DECLARE_REAL(sendfile);
DECLARE_REAL(copy_file_range);
DECLARE_REAL(mmap);

enum { copied_at_a_time = 1 << 20 };

static int is_hosts(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) return 0;
  const int why = errno;
  (void)let_go(f);
  errno = why;
  return 1;
}

/* By reads and writes. Offsets may be null: at the position. */
static ssize_t copy(int from, off_t* from_at, int to, off_t* to_at, size_t bytes) {
  char* const buffer = malloc(bytes < copied_at_a_time ? bytes + 1 : copied_at_a_time);
  if (buffer == NULL) return -1;
  ssize_t done = 0;
  int why = errno;
  while ((size_t)done < bytes) {
    const size_t left = bytes - (size_t)done;
    const size_t wanted = left < copied_at_a_time ? left : copied_at_a_time;
    const ssize_t got =
        from_at != NULL ? pread(from, buffer, wanted, *from_at) : read(from, buffer, wanted);
    ssize_t put = got;
    if (got > 0)
      put =
          to_at != NULL ? pwrite(to, buffer, (size_t)got, *to_at) : write(to, buffer, (size_t)got);
    why = errno;
    /* What was read and not written is still to come. */
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
  free(buffer);
  errno = why;
  return done;
}

EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t bytes) {
  if (!is_hosts(to) && !is_hosts(from)) return REAL(sendfile)(to, from, offset, bytes);
  const ssize_t done = copy(from, offset, to, NULL, bytes);
  count_forwarded(counted_sendfile, done);
  return done;
}
ALSO(sendfile64, sendfile);

EXPORT ssize_t copy_file_range(int from, off_t* from_at, int to, off_t* to_at, size_t bytes,
                               unsigned flags) {
  if (!is_hosts(to) && !is_hosts(from))
    return REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
  if (flags != 0) {
    errno = EINVAL;
    return -1;
  }
  const ssize_t done = copy(from, from_at, to, to_at, bytes);
  count_forwarded(counted_copy_file_range, done);
  return done;
}

/* A copy as of now. What is mapped to be shared would have to be the file itself. */
static void* map_copy(struct file* f, void* where, size_t bytes, int protection, int flags,
                      off_t offset) {
  if ((flags & MAP_TYPE) != MAP_PRIVATE || !S_ISREG(f->mode)) {
    pass(counted_mmap, not_offered);
    errno = ENODEV;
    return MAP_FAILED;
  }
  if (offset < 0 || offset % sysconf(_SC_PAGESIZE) != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  char* const made = REAL(mmap)(where, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return MAP_FAILED;
  size_t done = 0;
  while (done < bytes) {
    const int64_t got = pread_file(f, made + done, bytes - done, offset + (off_t)done);
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
  const int why = errno;
  (void)let_go(f);
  errno = why;
  return made;
}
ALSO(mmap64, mmap);
