#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

/* stdin, stdout and stderr are libc's streams, which make system calls of their own: they could
 * only write to the placeholder. Once one of the descriptors 0, 1 and 2 stands for a file of the
 * host, as after a shell's redirection, its stream is one that calls read() and write() as anybody
 * does, and which serves for whatever else the number stands for later. */

DECLARE_REAL(freopen);
DECLARE_REAL(fflush);
DECLARE_REAL(fread);
DECLARE_REAL(fwrite);
DECLARE_REAL(fputc);
DECLARE_REAL(fputs);
DECLARE_REAL(getc);
DECLARE_REAL(ungetc);
DECLARE_REAL(fseeko);
DECLARE_REAL(ftello);

/* libc's own, of those that were replaced. */
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

void prepare_standard_stream(int fd) {
  if (fd < 0 || fd > STDERR_FILENO || atomic_load(&before[fd]) != NULL) return;
  FILE* const libcs = *name_of(fd);
  if (libcs == NULL || descriptor_of(libcs) >= 0) return;
  const int why = errno;
  if (fd != STDIN_FILENO) (void)REAL(fflush)(libcs);
  replace(fd, fd == STDIN_FILENO ? "r" : "w");
  atomic_store(&before[fd], libcs);
  errno = why;
}

/* ---- freopen ---- */

/* Which of the three it is, or was; -1: none. */
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

/* A stream of libc's stays one: only the three that have names can become others. */
EXPORT FILE* freopen(const char* restrict path, const char* restrict mode, FILE* restrict file) {
  char absolute[longest_path];
  const int is_hosts =
      path != NULL && hosts_path(AT_FDCWD, path, absolute, counted_freopen) != NULL;
  const int fd = descriptor_of(file);
  const int standard = standard_descriptor(file);
  if (!is_hosts && fd < 0 && (standard < 0 || atomic_load(&before[standard]) == NULL))
    return REAL(freopen)(path, mode, file);
  if (path == NULL || (fd < 0 && standard < 0)) {
    pass(counted_freopen, not_offered);
    return refuse(file, EOPNOTSUPP);
  }
  int flags = 0;
  if (flags_of(mode, &flags) != 0) return refuse(file, EINVAL);
  const int wanted = standard >= 0 ? standard : fd;
  (void)fflush(file);
  const int opened = open(path, flags, 0666);
  if (opened < 0) return refuse(file, errno);
  prepare_standard_stream(wanted);
  const int is_moved = dup2(opened, wanted) >= 0;
  const int why = errno;
  (void)close(opened);
  if (!is_moved) return refuse(file, why);
  count_forwarded(counted_freopen, 0);
  FILE* const now = standard >= 0 ? *name_of(standard) : file;
  const int reads = (flags & O_ACCMODE) != O_WRONLY;
  const int writes = (flags & O_ACCMODE) != O_RDONLY;
  if ((__freadable(now) != 0) == reads && (__fwritable(now) != 0) == writes) {
    __fpurge(now);
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

/* ---- C++'s standard streams ---- */

/* These keep the streams that they were made with, and call the functions below, and those of
 * wide.c. */
FILE* current_stream(FILE* file) {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (__builtin_expect(
            file != NULL && file == atomic_load_explicit(&before[fd], memory_order_relaxed), 0))
      return *name_of(fd);
  }
  return file;
}

EXPORT int fflush(FILE* file) { return REAL(fflush)(current_stream(file)); }
EXPORT size_t fread(void* restrict to, size_t bytes, size_t count, FILE* restrict file) {
  return REAL(fread)(to, bytes, count, current_stream(file));
}
EXPORT size_t fwrite(const void* restrict from, size_t bytes, size_t count, FILE* restrict file) {
  return REAL(fwrite)(from, bytes, count, current_stream(file));
}
EXPORT int fputc(int c, FILE* file) { return REAL(fputc)(c, current_stream(file)); }
EXPORT int putc(int c, FILE* file);
ALSO(putc, fputc);
EXPORT int fputs(const char* restrict text, FILE* restrict file) {
  return REAL(fputs)(text, current_stream(file));
}
EXPORT int getc(FILE* file) { return REAL(getc)(current_stream(file)); }
EXPORT int ungetc(int c, FILE* file) { return REAL(ungetc)(c, current_stream(file)); }
EXPORT int fseeko(FILE* file, off_t offset, int whence) {
  return REAL(fseeko)(current_stream(file), offset, whence);
}
ALSO(fseeko64, fseeko);
EXPORT off_t ftello(FILE* file) { return REAL(ftello)(current_stream(file)); }
ALSO(ftello64, ftello);
