#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

void descriptors_after_fork(void) { free_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

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
  const int kept = atomic_load(&f->kept);
  if (kept >= 0) REAL(close)(kept);
  int64_t result = 0;
  const struct farcall_io_table* const to = enter();
  if (to != NULL) {
    result = to->close(f->number);
    leave();
  }
  free_file(f);
  return (int)as_libc(result);
}

/* The descriptor is about to stand for something else. Where calls may be under way, the file stays
 * open at the host until they have ended, as the system has it. */
static void keep_for_calls(int fd, struct file* f) {
  if (atomic_load(&f->uses) < 2 || atomic_load(&f->kept) >= 0) return;
  const int copy = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, first_own_descriptor);
  int none = -1;
  if (copy >= 0 && !atomic_compare_exchange_strong(&f->kept, &none, copy)) REAL(close)(copy);
}

/* A descriptor is one more of `f`, of which the caller has a use that goes over to it. */
static void set_file(int fd, struct file* f) {
  atomic_store_explicit(&files[fd], f, memory_order_release);
}

struct file* take_file(int fd) {
  if ((unsigned)fd >= most_descriptors) return NULL;
  if (atomic_load_explicit(&files[fd], memory_order_acquire) == NULL) return NULL;
  return atomic_exchange(&files[fd], NULL);
}

/* With one use. Null: no memory, or no place in the table. */
static struct file* describe(const struct farcall_io_opened* opened, int flags, const char* path) {
  struct file* const f = opened->descriptor < most_descriptors ? new_file() : NULL;
  if (f == NULL) return NULL;
  f->number = opened->file;
  atomic_store(&f->kept, -1);
  f->mode = (uint32_t)opened->mode;
  f->path = (opened->mode & S_IFMT) == S_IFDIR ? strdup(path) : NULL;
  atomic_store(&f->flags, flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  atomic_store(&f->uses, 1);
  return f;
}

int use_descriptor(const struct farcall_io_opened* opened, int flags, const char* path) {
  const int fd = opened->descriptor;
  struct file* const f = describe(opened, flags, path);
  if (f == NULL) {
    /* The target closes the file when it sees that. */
    REAL(close)(fd);
    errno = fd >= most_descriptors ? EMFILE : ENOMEM;
    return -1;
  }
  prepare_standard_stream(fd);
  set_file(fd, f);
  if ((flags & O_CLOEXEC) == 0) REAL(fcntl)(fd, F_SETFD, 0);
  return fd;
}

int adopt_descriptor(const struct farcall_io_opened* opened, int flags, const char* path) {
  const int fd = opened->descriptor;
  struct file* f = NULL;
  /* Its copies have low numbers as well, mostly. */
  for (int other = 0; other < 64 && f == NULL; ++other) {
    struct file* const seen = atomic_load(&files[other]);
    if (seen != NULL && seen->number == opened->file) f = seen;
  }
  if (f != NULL) {
    atomic_fetch_add(&f->uses, 1);
  } else {
    f = describe(opened, flags, path);
    if (f == NULL) return -1;
  }
  prepare_standard_stream(fd);
  set_file(fd, f);
  return fd;
}

void forget_descriptors(void) {
  for (int fd = 0; fd < most_descriptors; ++fd) {
    struct file* const f = take_file(fd);
    if (f != NULL && atomic_fetch_sub(&f->uses, 1) == 1) free_file(f);
  }
}

EXPORT int close(int fd) {
  struct file* const f = take_file(fd);
  if (f == NULL) {
    pass(counted_close, other_file);
    if (is_connection(fd) || (fd >= 0 && fd == working_folder_descriptor())) {
      /* As where a program closes whatever there may be. */
      errno = EBADF;
      return -1;
    }
    return REAL(close)(fd);
  }
  count_forwarded(counted_close, 0);
  keep_for_calls(fd, f);
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

/* All but the working folder. */
static int close_others(unsigned first, unsigned last, int flags) {
  const unsigned kept = (unsigned)working_folder_descriptor();
  if (kept < first || kept > last) return REAL(close_range)(first, last, flags);
  const int result = first < kept ? REAL(close_range)(first, kept - 1, flags) : 0;
  return result == 0 && kept < last ? REAL(close_range)(kept + 1, last, flags) : result;
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
  if (((unsigned)flags & CLOSE_RANGE_CLOEXEC) == 0 && atomic_load(&attached) != NULL) {
    leave_connection();
    close_ours(first, last_descriptor(last));
  }
  return close_others(first, last, flags);
}

EXPORT void closefrom(int first) {
  if (atomic_load(&attached) != NULL) {
    leave_connection();
    close_ours(first < 0 ? 0 : (unsigned)first, last_descriptor(most_descriptors - 1));
  }
  if (working_folder_descriptor() < 0) {
    REAL(closefrom)(first);
  } else {
    (void)close_others(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
  }
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
  prepare_standard_stream(made);
  set_file(made, f);
  return made;
}

EXPORT int dup(int fd) {
  struct file* const f = file_of(fd);
  return f == NULL ? REAL(dup)(fd) : keep_copy(REAL(dup)(fd), f);
}

static int libcs_dup_onto(int fd, int wanted, int flags, int is_dup3) {
  return is_dup3 ? REAL(dup3)(fd, wanted, flags) : REAL(dup2)(fd, wanted);
}

/* Other threads may use the descriptor all the while: it stands for the one file, then for the
 * other one, and never for the placeholder alone. */
static int dup_onto(int fd, int wanted, int flags, int is_dup3) {
  if (fd == wanted || (unsigned)wanted >= most_descriptors)
    return libcs_dup_onto(fd, wanted, flags, is_dup3);
  struct file* const f = file_of(fd);
  if (is_connection(wanted)) leave_connection();
  if (wanted == working_folder_descriptor()) move_working_folder();
  struct file* before = NULL;
  struct file* const replaced = file_of(wanted);
  if (replaced != NULL) {
    keep_for_calls(wanted, replaced);
    (void)let_go(replaced);
  }
  if (f != NULL) {
    prepare_standard_stream(wanted);
    before = atomic_exchange(&files[wanted], f);
  }
  const int made = libcs_dup_onto(fd, wanted, flags, is_dup3);
  const int why = errno;
  if (made < 0 && f != NULL) {
    atomic_store(&files[wanted], before);
    before = f;
  } else if (made >= 0 && f == NULL) {
    before = take_file(wanted);
  } else if (f != NULL) {
    count_forwarded(counted_dup, 0);
  }
  if (before != NULL) (void)let_go(before);
  errno = why;
  return made;
}

EXPORT int dup2(int fd, int wanted) { return dup_onto(fd, wanted, 0, 0); }
EXPORT int dup3(int fd, int wanted, int flags) { return dup_onto(fd, wanted, flags, 1); }

static int control(int fd, struct file* f, int what, void* argument) {
  switch (what) {
  case F_DUPFD:
  case F_DUPFD_CLOEXEC:
    atomic_fetch_add(&f->uses, 1);
    return keep_copy(REAL(fcntl)(fd, what, argument), f);
  case F_GETFD:
  case F_SETFD:
    return REAL(fcntl)(fd, what, argument);
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

/* A child that shares the memory would close its parent's descriptors, as it prepares itself for
 * another program. */
EXPORT pid_t vfork(void) { return fork(); }
