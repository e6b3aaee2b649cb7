// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <pty.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utmp.h>

_Atomic(struct file*) files[max_descriptors];

/* Guards the list of free descriptions. A struct file is reused but never freed, because another
 * thread may still read one whose descriptor was just closed. */
static pthread_mutex_t free_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file* first_free;
/* The system's memory for descriptions, in pieces. The first element of each piece is only the head
 * of this list. */
static struct file* pieces;
enum { piece_bytes = 1 << 16, in_piece = piece_bytes / sizeof(struct file) };

/* Highest number that was ever in the table. Limits of open files do not tell it, because programs
 * lower them. */
static _Atomic(int) highest = -1;

DECLARE_REAL(close);
DECLARE_REAL(close_range);
DECLARE_REAL(closefrom);
DECLARE_REAL(dup);
DECLARE_REAL(dup2);
DECLARE_REAL(dup3);
DECLARE_REAL(fcntl);
DECLARE_REAL(fcntl64);
DECLARE_REAL(ioctl);
DECLARE_REAL(daemon);
DECLARE_REAL(forkpty);
DECLARE_REAL(login_tty);

/* Adds new descriptions to the list of free ones. Called with the mutex. */
static void make_files(void) {
  struct file* const made = system_memory(piece_bytes);
  if (made == NULL) return;
  made->next_free = pieces;
  pieces = made;
  for (int i = 1; i < in_piece; ++i) {
    atomic_store(&made[i].kept, -1);
    made[i].next_free = first_free;
    first_free = &made[i];
  }
}

static struct file* new_file(void) {
  lock(&free_mutex);
  if (first_free == NULL) make_files();
  struct file* const f = first_free;
  if (f != NULL) first_free = f->next_free;
  unlock(&free_mutex);
  return f;
}

static void free_file(struct file* f) {
  drop_text(f->path);
  f->path = NULL;
  lock(&free_mutex);
  f->next_free = first_free;
  first_free = f;
  unlock(&free_mutex);
}

void descriptors_after_fork(void) {
  free_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  /* Close copies of placeholders, because the threads whose calls use them do not exist here. */
  for (struct file* piece = pieces; piece != NULL; piece = piece->next_free) {
    for (int i = 1; i < in_piece; ++i) {
      /* Most have none, and their memory stays shared with the parent. */
      if (atomic_load(&piece[i].kept) < 0) continue;
      REAL(close)(atomic_exchange(&piece[i].kept, -1));
    }
  }
}

struct file* hold(int fd) {
  for (;;) {
    struct file* const f = atomic_load_explicit(&files[fd], memory_order_acquire);
    if (f == NULL) return NULL;
    uint32_t uses = atomic_load(&f->uses);
    while (uses != 0 && !atomic_compare_exchange_weak(&f->uses, &uses, uses + 1)) {
    }
    /* The file was closed by another thread, which will soon remove it from the table. Try
     * again. */
    if (uses == 0) continue;
    if (atomic_load(&files[fd]) == f) {
      hold_back();
      return f;
    }
    /* The descriptor was closed before the file was held, and may represent another file now.
     * Release the file and try again. */
    (void)release_file(f);
  }
}

int is_hosts_descriptor(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) return 0;
  return (int)done_with(f, 1);
}

int release_file(struct file* f) {
  if (atomic_fetch_sub(&f->uses, 1) != 1) return 0;
  const int kept = atomic_exchange(&f->kept, -1);
  if (kept >= 0) REAL(close)(kept);
  /* Inside a forwarded call, don't ask the host to close the file. The target notices the end of
   * the descriptor, and closes the file itself. */
  const int result = is_forwarding() ? 0 : (int)host_close(f->number);
  const int why = errno;
  free_file(f);
  errno = why;
  return result;
}

int64_t done_with(struct file* f, int64_t result) {
  const int why = errno;
  (void)release_file(f);
  let_through();
  errno = why;
  return result;
}

/* Must be called when the program is about to close or replace a descriptor. If calls on the file
 * may still run, keeps a copy of the placeholder. The file then stays open at the host until these
 * calls have ended, like a local file. */
static void keep_for_calls(int fd, struct file* f) {
  if (atomic_load(&f->uses) < 2 || atomic_load(&f->kept) >= 0) return;
  const int copy = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, first_own_descriptor);
  int none = -1;
  if (copy >= 0 && !atomic_compare_exchange_strong(&f->kept, &none, copy)) REAL(close)(copy);
}

/* Makes the descriptor represent `f`, and returns the file from before. The table takes over the
 * caller's reference to `f`. */
static struct file* exchange_file(int fd, struct file* f) {
  int before = atomic_load_explicit(&highest, memory_order_relaxed);
  while (before < fd && !atomic_compare_exchange_weak(&highest, &before, fd)) {
  }
  return atomic_exchange(&files[fd], f);
}

/* Makes a new descriptor represent `f`. If the table has a file for the number already, the system
 * has closed it by a way that the library does not know. */
static void set_file(int fd, struct file* f) {
  struct file* const stale = exchange_file(fd, f);
  if (stale != NULL) (void)release_file(stale);
}

struct file* take_file(int fd) {
  if ((unsigned)fd >= max_descriptors) return NULL;
  if (atomic_load_explicit(&files[fd], memory_order_acquire) == NULL) return NULL;
  return atomic_exchange(&files[fd], NULL);
}

struct file* take_to_close(int fd) {
  struct file* const f = take_file(fd);
  if (f == NULL) return NULL;
  count_forwarded(counted_close, 0);
  keep_for_calls(fd, f);
  return f;
}

/* Makes a struct file with one reference. Returns null if there is no memory, or if the
 * descriptor's number is too high for the table. */
static struct file* describe(const struct farcall_io_opened* opened, int flags, const char* path) {
  struct file* const f = opened->descriptor < max_descriptors ? new_file() : NULL;
  if (f == NULL) return NULL;
  f->number = opened->file;
  f->mode = (uint32_t)opened->mode;
  f->path = (opened->mode & S_IFMT) == S_IFDIR ? copy_text(path) : NULL;
  atomic_store(&f->flags, flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  atomic_store(&f->uses, 1);
  return f;
}

int use_descriptor(const struct farcall_io_opened* opened, int flags, const char* path) {
  const int fd = opened->descriptor;
  struct file* const f = describe(opened, flags, path);
  if (f == NULL) {
    /* Only close the descriptor, because the target notices this, and closes the file at the
     * host. */
    REAL(close)(fd);
    errno = fd >= max_descriptors ? EMFILE : ENOMEM;
    return -1;
  }
  set_file(fd, f);
  prepare_standard_stream(fd);
  if ((flags & O_CLOEXEC) == 0) REAL(fcntl)(fd, F_SETFD, 0);
  return fd;
}

int adopt_descriptor(const struct farcall_io_opened* opened, int flags, const char* path) {
  const int fd = opened->descriptor;
  struct file* f = NULL;
  /* Look for another descriptor of the same file, but only among low numbers, because most
   * copies have low numbers. */
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
  set_file(fd, f);
  prepare_standard_stream(fd);
  return fd;
}

void forget_descriptors(void) {
  for (int fd = 0; fd < max_descriptors; ++fd) {
    struct file* const f = take_file(fd);
    if (f != NULL && atomic_fetch_sub(&f->uses, 1) == 1) free_file(f);
  }
}

EXPORT int close(int fd) {
  struct file* const f = take_to_close(fd);
  if (f == NULL) {
    pass(counted_close, other_file);
    if (is_connection(fd) || (fd >= 0 && fd == working_folder_descriptor())) {
      /* Fail as if there were no such descriptor. Some programs close every number, and must not
       * close the library's descriptors. */
      errno = EBADF;
      return -1;
    }
    return REAL(close)(fd);
  }
  REAL(close)(fd);
  return release_file(f);
}

EXPORT int __close(int fd);
ALSO(__close, close);

/* Closes the descriptors of the host's files in a range. */
static void close_ours(unsigned first, unsigned last) {
  const int end = atomic_load(&highest);
  for (unsigned fd = first; end >= 0 && fd <= last && fd <= (unsigned)end; ++fd) {
    if (atomic_load_explicit(&files[fd], memory_order_acquire) != NULL) (void)close((int)fd);
  }
}

/* Closes a range of descriptors by libc. If the working folder is at the host, its descriptor is
 * `kept`, and stays open. */
static int libcs_close_range(unsigned first, unsigned last, int flags, unsigned kept) {
  if (kept < first || kept > last) return REAL(close_range)(first, last, flags);
  const int result = first < kept ? REAL(close_range)(first, kept - 1, flags) : 0;
  return result == 0 && kept < last ? REAL(close_range)(kept + 1, last, flags) : result;
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
  const unsigned known = CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE;
  if (first > last || ((unsigned)flags & ~known) != 0) {
    errno = EINVAL;
    return -1;
  }
  const unsigned folder = (unsigned)working_folder_descriptor();
  if (((unsigned)flags & CLOSE_RANGE_CLOEXEC) != 0 || atomic_load(&attached) == NULL)
    return libcs_close_range(first, last, flags, folder);
  close_ours(first, last);
  hold_connection(-1);
  const int result = libcs_close_range(first, last, flags, folder);
  release_connection();
  return result;
}

EXPORT void closefrom(int first) {
  const unsigned from = first < 0 ? 0 : (unsigned)first;
  const int folder = working_folder_descriptor();
  if (atomic_load(&attached) != NULL) close_ours(from, max_descriptors - 1);
  hold_connection(-1);
  if (folder < 0) {
    REAL(closefrom)(first);
  } else {
    (void)libcs_close_range(from, UINT_MAX, 0, (unsigned)folder);
  }
  release_connection();
}

/* Completes the copy of a descriptor. `made` is a copy of the placeholder of `f`, or negative after
 * an error. Makes `made` represent `f`. The table takes over the caller's reference to `f`. */
static int keep_copy(int made, struct file* f) {
  count_forwarded(counted_dup, 0);
  if (made < 0 || made >= max_descriptors) {
    const int why = made < 0 ? errno : EMFILE;
    if (made >= 0) REAL(close)(made);
    (void)release_file(f);
    errno = why;
    return -1;
  }
  set_file(made, f);
  prepare_standard_stream(made);
  return made;
}

EXPORT int dup(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) return new_of_libc(REAL(dup)(fd));
  const int made = keep_copy(REAL(dup)(fd), f);
  let_through();
  return made;
}

static int libcs_dup_onto(int fd, int wanted, int flags, int is_dup3) {
  const int may_be_connection = wanted >= first_own_descriptor || is_connection(wanted);
  if (may_be_connection) hold_connection(wanted);
  const int made = is_dup3 ? REAL(dup3)(fd, wanted, flags) : REAL(dup2)(fd, wanted);
  if (may_be_connection) release_connection();
  return made;
}

/* Makes `wanted` a copy of `fd`. Other threads may use `wanted` during the call. They find first
 * the old file and afterwards the new one, but never a placeholder without its file. */
static int dup_onto(int fd, int wanted, int flags, int is_dup3) {
  if (wanted >= max_descriptors && is_hosts_descriptor(fd)) {
    /* The table ends there, if the limit of descriptors is not lower. */
    struct rlimit limit = {0, 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    errno = (rlim_t)wanted < limit.rlim_cur ? EMFILE : EBADF;
    return -1;
  }
  if (fd == wanted || (unsigned)wanted >= max_descriptors)
    return libcs_dup_onto(fd, wanted, flags, is_dup3);
  struct file* const f = file_of(fd);
  if (wanted == working_folder_descriptor()) move_working_folder();
  struct file* before = NULL;
  struct file* const replaced = file_of(wanted);
  if (replaced != NULL) {
    keep_for_calls(wanted, replaced);
    (void)done_with(replaced, 0);
  }
  if (f != NULL) {
    prepare_standard_stream(wanted);
    before = exchange_file(wanted, f);
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
  if (before != NULL) (void)release_file(before);
  if (f != NULL) let_through();
  errno = why;
  return made;
}

EXPORT int dup2(int fd, int wanted) { return dup_onto(fd, wanted, 0, 0); }
EXPORT int __dup2(int fd, int wanted);
int __dup2(int fd, int wanted) { return dup2(fd, wanted); }
EXPORT int dup3(int fd, int wanted, int flags) { return dup_onto(fd, wanted, flags, 1); }

/* Sets the flags that F_SETFL of fcntl() may change. */
static int set_flags(struct file* f, int wanted) {
  const int changeable = O_APPEND | O_NONBLOCK;
  const int flags = (atomic_load(&f->flags) & ~changeable) | (wanted & changeable);
  const int64_t result = host_set_flags(f->number, flags);
  if (result >= 0) atomic_store(&f->flags, flags);
  return (int)result;
}

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
  case F_SETFL:
    return set_flags(f, (int)(intptr_t)argument);
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

/* Defines a form of fcntl(). Its third argument is always taken and passed on as a pointer. This
 * also works for a number, because numbers and pointers are passed in the same register. */
#define DEFINE_FCNTL(name)                                                                         \
  EXPORT int name(int fd, int what, ...) {                                                         \
    va_list more;                                                                                  \
    va_start(more, what);                                                                          \
    void* const argument = va_arg(more, void*);                                                    \
    va_end(more);                                                                                  \
    struct file* const f = file_of(fd);                                                            \
    if (f == NULL) return REAL(name)(fd, what, argument);                                          \
    count_forwarded(counted_fcntl, 0);                                                             \
    return (int)done_with(f, control(fd, f, what, argument));                                      \
  }
DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)
EXPORT int __fcntl(int fd, int what, ...);
ALSO(__fcntl, fcntl);

/* Stores the number of bytes from the position to the end of the file. */
static int count_left(struct file* f, int* to) {
  struct farcall_io_status status;
  const int64_t at = stat_file(f, &status) == 0 ? seek_file(f, 0, SEEK_CUR) : -1;
  if (at < 0 || !is_space(to, sizeof *to)) return -1;
  const int64_t left = status.size > at ? status.size - at : 0;
  *to = left > INT32_MAX ? INT32_MAX : (int)left;
  return 0;
}

static int set_nonblocking(struct file* f, const int* is_wanted) {
  if (!is_readable(is_wanted, sizeof *is_wanted)) return -1;
  const int others = atomic_load(&f->flags) & ~O_NONBLOCK;
  return set_flags(f, others | (*is_wanted != 0 ? O_NONBLOCK : 0));
}

EXPORT int ioctl(int fd, unsigned long what, ...) {
  va_list more;
  va_start(more, what);
  void* const argument = va_arg(more, void*);
  va_end(more);
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(ioctl)(fd, what, argument);
  switch (what) {
  case FIONREAD:
    count_forwarded(counted_ioctl, 0);
    return (int)done_with(f, count_left(f, argument));
  case FIONBIO:
    count_forwarded(counted_ioctl, 0);
    return (int)done_with(f, set_nonblocking(f, argument));
  case FIOCLEX:
  case FIONCLEX: /* flags of the descriptor, which is the placeholder's */
    return (int)done_with(f, REAL(ioctl)(fd, what, argument));
  default:
    pass(counted_ioctl, not_offered);
    errno = ENOTTY;
    return (int)done_with(f, -1);
  }
}

/* ---- hidden calls that replace the first three descriptors ---- */

static void forget_standard_descriptors(void) {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    (void)new_of_libc(fd);
}

EXPORT int daemon(int keeps_folder, int keeps_streams) {
  const int result = REAL(daemon)(keeps_folder, keeps_streams);
  if (result == 0 && !keeps_folder) leave_working_folder();
  if (result == 0 && !keeps_streams) forget_standard_descriptors();
  return result;
}

EXPORT int login_tty(int fd) {
  if (is_hosts_descriptor(fd)) {
    errno = ENOTTY;
    return -1;
  }
  const int result = REAL(login_tty)(fd);
  if (result == 0) forget_standard_descriptors();
  return result;
}

EXPORT pid_t forkpty(int* terminal, char* name, const struct termios* settings,
                     const struct winsize* size) {
  const pid_t child = REAL(forkpty)(terminal, name, settings, size);
  if (child == 0) forget_standard_descriptors();
  return child;
}

/* vfork() acts like fork(). Otherwise parent and child would share the library's memory, and the
 * child would remove descriptors from its parent's table while it prepares to run another
 * program. */
EXPORT pid_t vfork(void) { return fork(); }
EXPORT pid_t __vfork(void);
pid_t __vfork(void) { return fork(); }
