#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Atomic(struct file*) files[most_descriptors];

/* Descriptions are used again, never freed: a thread may look at one that was just closed. */
static pthread_mutex_t free_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file* first_free;

DECLARE_REAL(close);
DECLARE_REAL(close_range);
DECLARE_REAL(closefrom);
DECLARE_REAL(dup);
DECLARE_REAL(dup2);
DECLARE_REAL(dup3);
DECLARE_REAL(fcntl);
DECLARE_REAL(fcntl64);
DECLARE_REAL(flock);
DECLARE_REAL(ioctl);

static struct file* new_file(void) {
  pthread_mutex_lock(&free_mutex);
  struct file* f = first_free;
  if (f != NULL) first_free = f->next_free;
  pthread_mutex_unlock(&free_mutex);
  return f != NULL ? f : calloc(1, sizeof *f);
}

static void free_file(struct file* f) {
  free(f->path);
  f->path = NULL;
  pthread_mutex_lock(&free_mutex);
  f->next_free = first_free;
  first_free = f;
  pthread_mutex_unlock(&free_mutex);
}

struct file* hold(int fd) {
  for (;;) {
    struct file* const f = atomic_load_explicit(&files[fd], memory_order_acquire);
    if (f == NULL) return NULL;
    uint32_t uses = atomic_load(&f->uses);
    while (uses != 0 && !atomic_compare_exchange_weak(&f->uses, &uses, uses + 1)) {
    }
    if (uses == 0) continue; /* it is about to leave the table */
    if (atomic_load(&files[fd]) == f) return f;
    /* Closed, and perhaps opened as another one. */
    (void)let_go(f);
  }
}

int let_go(struct file* f) {
  if (atomic_fetch_sub(&f->uses, 1) != 1) return 0;
  int64_t result = 0;
  if (!is_forked()) {
    const struct farcall_io_table* const to = enter();
    if (to != NULL) {
      result = to->close(f->number);
      leave();
    }
  }
  free_file(f);
  return (int)as_libc(result);
}

void set_file(int fd, struct file* f) {
  atomic_store_explicit(&files[fd], f, memory_order_release);
}

struct file* take_file(int fd) {
  if ((unsigned)fd >= most_descriptors) return NULL;
  if (atomic_load_explicit(&files[fd], memory_order_acquire) == NULL) return NULL;
  return atomic_exchange(&files[fd], NULL);
}

int make_descriptor(const struct farcall_io_opened* opened, int flags, const char* path) {
  /* Readable and writable to poll() and select(), as files are; nothing can be written to it. */
  int fd = memfd_create("farcall-host-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct file* const f = fd >= 0 && fd < most_descriptors ? new_file() : NULL;
  if (f == NULL) {
    const int why = fd < 0 ? errno : fd >= most_descriptors ? EMFILE : ENOMEM;
    if (fd >= 0) REAL(close)(fd);
    const struct farcall_io_table* const to = enter();
    if (to != NULL) {
      (void)to->close(opened->file);
      leave();
    }
    errno = why;
    return -1;
  }
  REAL(fcntl)(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  f->number = opened->file;
  f->mode = (uint32_t)opened->mode;
  f->path = (opened->mode & S_IFMT) == S_IFDIR ? strdup(path) : NULL;
  atomic_store(&f->flags, flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  atomic_store(&f->uses, 1);
  set_file(fd, f);
  return fd;
}

EXPORT int close(int fd) {
  struct file* const f = take_file(fd);
  if (f == NULL) {
    pass(counted_close, other_file);
    return REAL(close)(fd);
  }
  count_forwarded(counted_close, 0);
  REAL(close)(fd);
  return let_go(f);
}

static void close_ours(unsigned first, unsigned last) {
  for (unsigned fd = first; fd <= last && fd < most_descriptors; ++fd) {
    struct file* const f = take_file((int)fd);
    if (f != NULL) (void)let_go(f);
  }
}

/* The highest descriptor is not known: as many are looked at as may be open. */
static unsigned last_descriptor(unsigned last) {
  const long most = sysconf(_SC_OPEN_MAX);
  return most > 0 && (unsigned long)most < last ? (unsigned)most : last;
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
  if (((unsigned)flags & CLOSE_RANGE_CLOEXEC) == 0 && atomic_load(&attached) != NULL)
    close_ours(first, last_descriptor(last));
  return REAL(close_range)(first, last, flags);
}

EXPORT void closefrom(int first) {
  if (atomic_load(&attached) != NULL)
    close_ours(first < 0 ? 0 : (unsigned)first, last_descriptor(most_descriptors - 1));
  REAL(closefrom)(first);
}

/* `made` is a copy of the placeholder of `f`, whose use goes over to it. */
static int keep_copy(int made, struct file* f) {
  count_forwarded(counted_dup, 0);
  if (made < 0 || made >= most_descriptors) {
    const int why = made < 0 ? errno : EMFILE;
    if (made >= 0) REAL(close)(made);
    (void)let_go(f);
    errno = why;
    return -1;
  }
  /* Another program could do nothing with it. */
  REAL(fcntl)(made, F_SETFD, FD_CLOEXEC);
  set_file(made, f);
  return made;
}

EXPORT int dup(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(dup)(fd) : keep_copy(REAL(dup)(fd), f);
}

static int dup_onto(int fd, int wanted, int flags, int is_dup3) {
  if (fd == wanted) return is_dup3 ? REAL(dup3)(fd, wanted, flags) : REAL(dup2)(fd, wanted);
  struct file* const f = file_of(fd);
  struct file* const before =
      (unsigned)wanted < most_descriptors && fcntl(fd, F_GETFD) >= 0 ? take_file(wanted) : NULL;
  const int made = is_dup3 ? REAL(dup3)(fd, wanted, flags) : REAL(dup2)(fd, wanted);
  const int why = errno;
  if (before != NULL) (void)let_go(before);
  errno = why;
  return f == NULL ? made : keep_copy(made, f);
}

EXPORT int dup2(int fd, int wanted) { return dup_onto(fd, wanted, 0, 0); }
EXPORT int dup3(int fd, int wanted, int flags) { return dup_onto(fd, wanted, flags, 1); }

static int control(int fd, struct file* f, int what, void* argument) {
  switch (what) {
  case F_DUPFD:
  case F_DUPFD_CLOEXEC:
    atomic_fetch_add(&f->uses, 1);
    return keep_copy(REAL(fcntl)(fd, F_DUPFD_CLOEXEC, argument), f);
  case F_GETFD:
    return REAL(fcntl)(fd, F_GETFD);
  case F_SETFD:
    if (((intptr_t)argument & FD_CLOEXEC) == 0) {
      static atomic_flag is_said = ATOMIC_FLAG_INIT;
      if (!atomic_flag_test_and_set(&is_said)) {
        dprintf(STDERR_FILENO,
                "farcall[%d] warning: a file of the host is to be left to another program (exec), "
                "which could not use it: it stays close-on-exec\n",
                (int)getpid());
      }
    }
    return 0;
  case F_GETFL:
    return atomic_load(&f->flags);
  case F_SETFL: {
    const int changeable = O_APPEND | O_NONBLOCK;
    const struct farcall_io_table* const to = enter();
    if (to == NULL) return -1;
    const int flags =
        (atomic_load(&f->flags) & ~changeable) | ((int)(intptr_t)argument & changeable);
    const int64_t result = to->set_flags(f->number, flags);
    leave();
    if (result >= 0) atomic_store(&f->flags, flags);
    return (int)as_libc(result);
  }
  case F_GETLK:
  case F_SETLK:
  case F_SETLKW:
  case F_OFD_GETLK:
  case F_OFD_SETLK:
  case F_OFD_SETLKW:
    pass(counted_fcntl, not_offered);
    errno = ENOLCK;
    return -1;
  default:
    pass(counted_fcntl, not_offered);
    errno = EINVAL;
    return -1;
  }
}

/* An argument that is a number is taken as a pointer, and handed on so: the same register. */
#define DEFINE_FCNTL(name)                                                                         \
  EXPORT int name(int fd, int what, ...) {                                                         \
    va_list more;                                                                                  \
    va_start(more, what);                                                                          \
    void* const argument = va_arg(more, void*);                                                    \
    va_end(more);                                                                                  \
    struct file* const f = file_of(fd);                                                            \
    if (f == NULL) return REAL(name)(fd, what, argument);                                          \
    count_forwarded(counted_fcntl, 0);                                                             \
    const int result = control(fd, f, what, argument);                                             \
    const int why = errno;                                                                         \
    (void)let_go(f);                                                                               \
    errno = why;                                                                                   \
    return result;                                                                                 \
  }
DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)

EXPORT int flock(int fd, int what) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(flock)(fd, what);
  (void)let_go(f);
  pass(counted_flock, not_offered);
  errno = ENOLCK;
  return -1;
}

EXPORT int ioctl(int fd, unsigned long what, ...) {
  va_list more;
  va_start(more, what);
  void* const argument = va_arg(more, void*);
  va_end(more);
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(ioctl)(fd, what, argument);
  int result = -1;
  int why = ENOTTY;
  if (what == FIONREAD) {
    struct farcall_io_status status;
    const int64_t at = stat_file(f, &status) == 0 ? seek_file(f, 0, SEEK_CUR) : -1;
    why = errno;
    if (at >= 0) {
      const int64_t left = status.size > at ? status.size - at : 0;
      *(int*)argument = left > INT32_MAX ? INT32_MAX : (int)left;
      result = 0;
    }
    count_forwarded(counted_ioctl, 0);
  } else {
    pass(counted_ioctl, not_offered);
  }
  (void)let_go(f);
  errno = why;
  return result;
}
