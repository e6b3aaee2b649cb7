#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* libc's own streams call nothing that could be preloaded: those on files of the host are made by
 * fopencookie() instead. */
struct stream {
  int fd;
  int orientation;
  FILE* as_file;
  struct stream* next;
  char buffer[262144];
};

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct stream*) all;

DECLARE_REAL(fopen);
DECLARE_REAL(fdopen);
DECLARE_REAL(fileno);

void streams_after_fork(void) { all_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

static ssize_t read_stream(void* cookie, char* to, size_t bytes) {
  return read(((struct stream*)cookie)->fd, to, bytes);
}

/* A stream wants all of it written, or 0 for an error. */
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
  const off_t at = lseek(((struct stream*)cookie)->fd, *offset, whence);
  if (at < 0) return -1;
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

int descriptor_of(FILE* file) {
  const struct stream* const s = find(file);
  return s != NULL ? s->fd : -1;
}

int* orientation_of(FILE* file) {
  struct stream* const s = find(file);
  return s != NULL ? &s->orientation : NULL;
}

void flush_streams(void) {
  /* Not with the mutex: a stream that closes holds itself, and wants that. */
  FILE* open[256];
  int count = 0;
  pthread_mutex_lock(&all_mutex);
  for (const struct stream* s = atomic_load(&all); s != NULL && count < 256; s = s->next)
    open[count++] = s->as_file;
  pthread_mutex_unlock(&all_mutex);
  for (int i = 0; i < count; ++i)
    (void)fflush(open[i]);
}

/* Takes the descriptor over. */
static FILE* open_stream(int fd, const char* mode) {
  if (fd < 0) return NULL;
  count_forwarded(counted_fopen, 0);
  struct file* const f = file_of(fd);
  if (f != NULL) (void)let_go(f);
  /* An open file that the host has passed is one of libc's. */
  FILE* const file = f != NULL ? stream_of(fd, mode) : REAL(fdopen)(fd, mode);
  if (file == NULL) {
    const int why = errno;
    (void)close(fd);
    errno = why;
  }
  return file;
}

EXPORT FILE* fopen(const char* restrict path, const char* restrict mode) {
  char absolute[longest_path];
  int flags = 0;
  const int is_hosts = hosts_path(AT_FDCWD, path, absolute, counted_fopen) != NULL;
  if (is_hosts && flags_of(mode, &flags) != 0) return NULL;
  const int copy = is_hosts ? -1 : open_copy(path, 0);
  if (!is_hosts && copy < 0) return REAL(fopen)(path, mode);
  return open_stream(is_hosts ? open_hosts(absolute, flags, 0666) : copy, mode);
}
ALSO(fopen64, fopen);

EXPORT FILE* fdopen(int fd, const char* mode) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(fdopen)(fd, mode);
  const int opened = atomic_load(&f->flags) & O_ACCMODE;
  (void)let_go(f);
  int flags = 0;
  if (flags_of(mode, &flags) != 0) return NULL;
  if (opened != O_RDWR && (flags & O_ACCMODE) != opened) {
    errno = EINVAL;
    return NULL;
  }
  if ((flags & O_APPEND) != 0) (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_APPEND);
  return stream_of(fd, mode);
}

EXPORT int fileno(FILE* file) {
  const int fd = descriptor_of(file);
  return fd >= 0 ? fd : REAL(fileno)(file);
}
ALSO(fileno_unlocked, fileno);
