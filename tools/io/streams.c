// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <mntent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A stream on a file of the host. It is made by fopencookie(), which lets the library supply the
 * functions that read and write. Libc's own streams make system calls inside libc, which a
 * preloaded library cannot replace. */
struct stream {
  int fd;
  int orientation;
  FILE* as_file;
  struct stream* next;
  unsigned flushed; /* number of the flush_streams() that has flushed it */
  char* first;      /* bytes to read before the file's bytes; owned */
  size_t first_at;
  size_t first_end;
  char buffer[262144];
};

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct stream*) all;

DECLARE_REAL(fopen);
DECLARE_REAL(fdopen);
DECLARE_REAL(fileno);

void streams_after_fork(void) { all_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

static ssize_t read_stream(void* cookie, char* to, size_t bytes) {
  struct stream* const s = cookie;
  const size_t left = s->first_end - s->first_at;
  if (left == 0) return read(s->fd, to, bytes);
  const size_t given = left < bytes ? left : bytes;
  memcpy(to, s->first + s->first_at, given);
  s->first_at += given;
  return (ssize_t)given;
}

/* Writes all bytes, because fopencookie() takes a smaller number as an error. */
static ssize_t write_stream(void* cookie, const char* from, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = write(((struct stream*)cookie)->fd, from + done, bytes - done);
    if (n <= 0) return (ssize_t)done;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

static int seek_stream(void* cookie, off64_t* offset, int whence) {
  struct stream* const s = cookie;
  const off_t at = lseek(s->fd, *offset, whence);
  if (at < 0) return -1;
  s->first_at = s->first_end = 0;
  *offset = at;
  return 0;
}

static int close_stream(void* cookie) {
  struct stream* const s = cookie;
  pthread_mutex_lock(&all_mutex);
  struct stream* before = atomic_load(&all);
  if (before == s) {
    atomic_store(&all, s->next);
  } else {
    while (before->next != s)
      before = before->next;
    before->next = s->next;
  }
  pthread_mutex_unlock(&all_mutex);
  const int result = close(s->fd);
  const int why = errno;
  free(s->first);
  free(s);
  errno = why;
  return result;
}

int flags_of(const char* mode, int* flags) {
  switch (mode[0]) {
  case 'r':
    *flags = O_RDONLY;
    break;
  case 'w':
    *flags = O_WRONLY | O_CREAT | O_TRUNC;
    break;
  case 'a':
    *flags = O_WRONLY | O_CREAT | O_APPEND;
    break;
  default:
    errno = EINVAL;
    return -1;
  }
  const char* const encoding = strstr(mode, ",ccs=");
  if (encoding != NULL && strcasecmp(encoding + 5, nl_langinfo(CODESET)) != 0) {
    errno = EINVAL;
    return -1;
  }
  for (const char* c = mode + 1; *c != '\0' && *c != ','; ++c) {
    if (*c == '+') *flags = (*flags & ~O_ACCMODE) | O_RDWR;
    if (*c == 'x') *flags |= O_EXCL;
    if (*c == 'e') *flags |= O_CLOEXEC;
  }
  return 0;
}

FILE* stream_of(int fd, const char* mode) {
  struct stream* const s = malloc(sizeof *s);
  if (s == NULL) return NULL;
  s->fd = fd;
  s->orientation = 0;
  s->flushed = 0;
  s->first = NULL;
  s->first_at = s->first_end = 0;
  const cookie_io_functions_t functions = {read_stream, write_stream, seek_stream, close_stream};
  const char plain[3] = {mode[0], strchr(mode, '+') != NULL ? '+' : '\0', '\0'};
  s->as_file = fopencookie(s, plain, functions);
  if (s->as_file == NULL) {
    free(s);
    return NULL;
  }
  (void)setvbuf(s->as_file, s->buffer, _IOFBF, sizeof s->buffer);
  pthread_mutex_lock(&all_mutex);
  s->next = atomic_load(&all);
  atomic_store_explicit(&all, s, memory_order_release);
  pthread_mutex_unlock(&all_mutex);
  return s->as_file;
}

static struct stream* find(FILE* file) {
  if (atomic_load_explicit(&all, memory_order_acquire) == NULL) return NULL;
  pthread_mutex_lock(&all_mutex);
  struct stream* s = atomic_load(&all);
  while (s != NULL && s->as_file != file)
    s = s->next;
  pthread_mutex_unlock(&all_mutex);
  return s;
}

void read_first(FILE* file, const char* from, size_t bytes) {
  struct stream* const s = find(file);
  if (s == NULL) return;
  free(s->first);
  s->first = bytes > 0 ? malloc(bytes) : NULL;
  s->first_at = 0;
  s->first_end = s->first != NULL ? bytes : 0;
  if (s->first != NULL) memcpy(s->first, from, bytes);
}

int descriptor_of(FILE* file) {
  const struct stream* const s = find(file);
  return s != NULL ? s->fd : -1;
}

int close_but_keep(FILE* file) {
  struct stream* const s = find(file);
  flockfile(file);
  const int result = fflush(file);
  const int why = errno;
  const int closed = close(s->fd);
  if (result != 0) errno = why;
  s->fd = -1;
  (void)setvbuf(file, NULL, _IONBF, 0);
  funlockfile(file);
  return result == 0 ? closed : result;
}

int* orientation_of(FILE* file) {
  struct stream* const s = find(file);
  return s != NULL ? &s->orientation : NULL;
}

void flush_streams(void) {
  static _Atomic(unsigned) last_round;
  const unsigned round = atomic_fetch_add(&last_round, 1) + 1;
  for (;;) {
    pthread_mutex_lock(&all_mutex);
    struct stream* s = atomic_load(&all);
    while (s != NULL && s->flushed == round)
      s = s->next;
    FILE* const file = s != NULL ? s->as_file : NULL;
    if (s != NULL) s->flushed = round;
    pthread_mutex_unlock(&all_mutex);
    if (file == NULL) return;
    /* Flush without the mutex, because a thread that closes a stream has locked the stream, and
     * waits for the mutex. */
    (void)fflush(file);
  }
}

/* Puts the position of a file that is opened for appending only to its end, as libc does. */
static void begin_at_end(int fd, const char* mode) {
  if (strchr(mode, '+') == NULL) (void)lseek(fd, 0, SEEK_END);
}

/* Makes a stream, which takes over the descriptor. */
static FILE* open_stream(int fd, const char* mode) {
  if (fd < 0) return NULL;
  count_forwarded(counted_fopen, 0);
  struct file* const f = file_of(fd);
  if (f != NULL) (void)done_with(f, 0);
  if (f != NULL && mode[0] == 'a') begin_at_end(fd, mode);
  /* If the host has passed the open file itself, the descriptor is an ordinary one, and libc's
   * own stream is used. */
  FILE* const file = f != NULL ? stream_of(fd, mode) : REAL(fdopen)(fd, mode);
  if (file == NULL) {
    const int why = errno;
    (void)close(fd);
    errno = why;
  }
  return file;
}

EXPORT FILE* fopen(const char* restrict path, const char* restrict mode) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_fopen);
  int flags = 0;
  const int is_hosts = absolute != NULL;
  if (is_hosts && flags_of(mode, &flags) != 0) return NULL;
  const int copy = is_hosts ? -1 : open_copy(path, 0);
  if (!is_hosts && copy < 0) return REAL(fopen)(path, mode);
  return open_stream(is_hosts ? open_hosts(absolute, flags, 0666) : copy, mode);
}
ALSO(fopen64, fopen);

/* Libc adds two letters to the mode, of which one is its own. */
DECLARE_REAL(setmntent);
EXPORT FILE* setmntent(const char* path, const char* mode) {
  SPACE(space);
  return hosts_path(AT_FDCWD, path, &space, counted_fopen) != NULL ? fopen(path, mode)
                                                                   : REAL(setmntent)(path, mode);
}
EXPORT FILE* __setmntent(const char* path, const char* mode);
FILE* __setmntent(const char* path, const char* mode) { return setmntent(path, mode); }

EXPORT FILE* fdopen(int fd, const char* mode) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(fdopen)(fd, mode);
  const int opened = atomic_load(&f->flags) & O_ACCMODE;
  (void)done_with(f, 0);
  int flags = 0;
  if (flags_of(mode, &flags) != 0) return NULL;
  if (opened != O_RDWR && (flags & O_ACCMODE) != opened) {
    errno = EINVAL;
    return NULL;
  }
  const int before = fcntl(fd, F_GETFL);
  if ((flags & O_APPEND) != 0 && (before & O_APPEND) == 0) {
    (void)fcntl(fd, F_SETFL, before | O_APPEND);
    begin_at_end(fd, mode);
  }
  return stream_of(fd, mode);
}

EXPORT int fileno(FILE* file) {
  const int fd = descriptor_of(file);
  return fd >= 0 ? fd : REAL(fileno)(file);
}
ALSO(fileno_unlocked, fileno);
