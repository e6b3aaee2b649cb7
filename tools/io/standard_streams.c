// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio_ext.h>
#include <unistd.h>
#include <wchar.h>

/* Replaces stdin, stdout and stderr when their descriptors become files of the host, for
 * instance by a shell's redirection. Libc's own streams make system calls inside libc, which
 * this library cannot forward, and so would write to the placeholder. The new stream calls
 * read() and write() like a program, and therefore works for any file that the descriptor
 * represents later. */

DECLARE_REAL(freopen);
DECLARE_REAL(fclose);
DECLARE_REAL(pclose);
DECLARE_REAL(fileno);

/* Streams of libc that were replaced. The index is the stream's descriptor. */
static _Atomic(FILE*) before[3];

static FILE** name_of(int fd) {
  switch (fd) {
  case STDIN_FILENO:
    return &stdin;
  case STDOUT_FILENO:
    return &stdout;
  case STDERR_FILENO:
    return &stderr;
  default:
    return NULL;
  }
}

static void replace(int fd, const char* mode) {
  FILE* const made = stream_of(fd, mode);
  if (made == NULL) return;
  if (fd == STDERR_FILENO) (void)setvbuf(made, NULL, _IONBF, 0);
  *name_of(fd) = made;
}

/* Gives a new stream the buffering that the program has chosen for the stream of libc. */
static void buffer_like(FILE* made, FILE* libcs) {
  if (made == libcs) return;
  if (__fbufsize(libcs) == 1) {
    (void)setvbuf(made, NULL, _IONBF, 0);
  } else if (__flbf(libcs) != 0) {
    setlinebuf(made);
  }
}

/* Moves bytes that libc's stream has buffered into the new stream. They are not written here: like
 * the bytes of a stream of libc, they go to the file that the descriptor represents later, and a
 * child of a fork loses its copy of them when it executes a program. */
static void move_buffered(int fd, FILE* libcs, FILE* made) {
  flockfile(libcs);
  if (fd == STDIN_FILENO) {
    const ptrdiff_t left = libcs->_IO_read_end - libcs->_IO_read_ptr;
    if (left > 0) read_first(made, libcs->_IO_read_ptr, (size_t)left);
  } else if (fwide(libcs, 0) > 0) {
    /* The buffer has wide characters, which only libc can convert. */
    if (!is_hosts_descriptor(fd)) (void)fflush(libcs);
  } else if (libcs->_IO_write_ptr > libcs->_IO_write_base) {
    (void)fwrite(libcs->_IO_write_base, 1, (size_t)(libcs->_IO_write_ptr - libcs->_IO_write_base),
                 made);
  }
  __fpurge(libcs);
  funlockfile(libcs);
}

void prepare_standard_stream(int fd) {
  if (fd < 0 || fd > STDERR_FILENO || atomic_load(&before[fd]) != NULL) return;
  FILE* const libcs = *name_of(fd);
  if (libcs == NULL || descriptor_of(libcs) >= 0) return;
  const int why = errno;
  replace(fd, fd == STDIN_FILENO ? "r" : "w");
  if (*name_of(fd) != libcs) move_buffered(fd, libcs, *name_of(fd));
  buffer_like(*name_of(fd), libcs);
  atomic_store(&before[fd], libcs);
  errno = why;
}

/* ---- freopen ---- */

/* Returns the number of the standard stream that `file` is or was. Returns -1 if it is no standard
 * stream. */
static int standard_descriptor(FILE* file) {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (file == *name_of(fd) || (file != NULL && file == atomic_load(&before[fd]))) return fd;
  }
  return -1;
}

static FILE* refuse(FILE* file, int why) {
  (void)fclose(file);
  errno = why;
  return NULL;
}

/* A stream of libc gets a file of the host by dup2() onto its descriptor. Before libc closes the
 * descriptor, writes the stream's bytes, which libc would write to the placeholder, and removes the
 * file from the table. Sets `result` to EOF if they cannot be written. Returns the file, which the
 * caller releases, or null. */
static struct file* leave_to_libc(FILE* file, int* result) {
  if (atomic_load_explicit(&attached, memory_order_acquire) == NULL || descriptor_of(file) >= 0)
    return NULL;
  const int why = errno;
  const int fd = REAL(fileno)(file);
  errno = why;
  if (fd < 0 || !is_hosts_descriptor(fd)) return NULL;
  const char* from = file->_IO_write_base;
  while (from < file->_IO_write_ptr && *result == 0) {
    const ssize_t n = write(fd, from, (size_t)(file->_IO_write_ptr - from));
    if (n > 0) from += n;
    if (n <= 0) *result = EOF;
  }
  __fpurge(file);
  return take_to_close(fd);
}

static int close_libcs(FILE* file, int (*closes)(FILE*)) {
  int result = 0;
  struct file* const f = leave_to_libc(file, &result);
  if (f == NULL) return closes(file);
  const int why = errno;
  const int closed = closes(file);
  if (closed < 0) result = closed;
  if (release_file(f) != 0) return EOF;
  if (result == EOF && closed >= 0) errno = why;
  return result != 0 ? result : closed;
}

static FILE* reopen_libcs(const char* path, const char* mode, FILE* file) {
  int ignored = 0;
  struct file* const f = leave_to_libc(file, &ignored);
  FILE* const now = REAL(freopen)(path, mode, file);
  const int why = errno;
  if (f != NULL) (void)release_file(f);
  errno = why;
  return now;
}

/* Gives the descriptor of a replaced stream another mode, for freopen() without a path. Returns 0,
 * or -1 with errno if the descriptor does not allow the mode. */
static int change_mode(int fd, int flags) {
  const int now = fcntl(fd, F_GETFL);
  if (now < 0) return -1;
  if ((now & O_ACCMODE) != O_RDWR && (now & O_ACCMODE) != (flags & O_ACCMODE)) {
    errno = EBADF;
    return -1;
  }
  if ((flags & O_APPEND) != 0 && fcntl(fd, F_SETFL, now | O_APPEND) != 0) return -1;
  return (flags & O_TRUNC) != 0 ? ftruncate(fd, 0) : 0;
}

/* Makes `wanted` the descriptor of another file. Returns 0, or -1 with errno. */
static int open_at(const char* path, int flags, int wanted) {
  const int opened = open(path, flags, 0666);
  if (opened < 0) return -1;
  prepare_standard_stream(wanted);
  if (opened == wanted) return 0; /* its number was free */
  const int result = dup2(opened, wanted) < 0 ? -1 : 0;
  const int why = errno;
  (void)close(opened);
  errno = why;
  return result;
}

/* Handles files of the host and replaced streams, and passes other calls on. Only stdin, stdout and
 * stderr can become streams on files of the host, because they are variables. Programs keep the
 * addresses of all other streams of libc. */
EXPORT FILE* freopen(const char* restrict path, const char* restrict mode, FILE* restrict file) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_freopen);
  const int is_hosts = absolute != NULL;
  const int fd = descriptor_of(file);
  const int standard = standard_descriptor(file);
  if (!is_hosts && fd < 0 && (standard < 0 || atomic_load(&before[standard]) == NULL))
    return reopen_libcs(path, mode, file);
  if (fd < 0 && standard < 0) {
    pass(counted_freopen, not_offered);
    return refuse(file, EOPNOTSUPP);
  }
  int flags = 0;
  if (flags_of(mode, &flags) != 0) return refuse(file, EINVAL);
  const int wanted = standard >= 0 ? standard : fd;
  (void)fflush(file);
  if ((path != NULL ? open_at(path, flags, wanted) : change_mode(wanted, flags)) != 0)
    return refuse(file, errno);
  count_forwarded(counted_freopen, 0);
  FILE* const now = standard >= 0 ? *name_of(standard) : file;
  const int reads = (flags & O_ACCMODE) != O_WRONLY;
  const int writes = (flags & O_ACCMODE) != O_RDONLY;
  if ((__freadable(now) != 0) == reads && (__fwritable(now) != 0) == writes) {
    __fpurge(now);
    read_first(now, NULL, 0);
    clearerr(now);
    int* const orientation = orientation_of(now);
    if (orientation != NULL) *orientation = 0;
    return now;
  }
  if (standard < 0) {
    pass(counted_freopen, not_offered);
    return refuse(file, EOPNOTSUPP);
  }
  replace(standard, mode);
  return *name_of(standard);
}
ALSO(freopen64, freopen);

/* ---- pointers that programs keep ---- */

FILE* current_stream(FILE* file) {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (__builtin_expect(
            file != NULL && file == atomic_load_explicit(&before[fd], memory_order_relaxed), 0))
      return *name_of(fd);
  }
  return file;
}

/* Closes a stream. Programs use stdin, stdout and stderr after they have closed them, which fails
 * without harm, because libc never frees these three. So a stream that replaces one of them is
 * kept, too. */
EXPORT int fclose(FILE* file) {
  FILE* const now = current_stream(file);
  const int standard = standard_descriptor(now);
  const int is_ours = standard >= 0 && orientation_of(now) != NULL;
  return is_ours ? close_but_keep(now) : close_libcs(now, REAL(fclose));
}

EXPORT int pclose(FILE* file) { return close_libcs(file, REAL(pclose)); }
