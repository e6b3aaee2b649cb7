#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

DECLARE_REAL(openat);
DECLARE_REAL(fcntl);
DECLARE_REAL(stat);
DECLARE_REAL(lstat);
DECLARE_REAL(fstat);
DECLARE_REAL(fstatat);
DECLARE_REAL(statx);
DECLARE_REAL(access);
DECLARE_REAL(faccessat);
DECLARE_REAL(truncate);
DECLARE_REAL(unlink);
DECLARE_REAL(unlinkat);
DECLARE_REAL(remove);
DECLARE_REAL(rename);
DECLARE_REAL(renameat);
DECLARE_REAL(renameat2);
DECLARE_REAL(mkdir);
DECLARE_REAL(mkdirat);
DECLARE_REAL(rmdir);
DECLARE_REAL(readlink);
DECLARE_REAL(readlinkat);

/* ---- whose a path is ---- */

static const char* join(const char* folder, const char* path, char to[longest_path]) {
  const size_t first = strlen(folder);
  const size_t second = strlen(path);
  if (first + second + 2 > longest_path) return NULL;
  memmove(to, folder, first);
  to[first] = '/';
  memcpy(to + first + 1, path, second + 1);
  return to;
}

const char* hosts_path(int folder, const char* path, char to[longest_path], enum counted what) {
  const struct farcall_io_table* const table =
      atomic_load_explicit(&attached, memory_order_acquire);
  if (table == NULL) {
    pass(what, before_job);
    return NULL;
  }
  const char* absolute = NULL;
  if (path == NULL || path[0] == '\0') {
    absolute = NULL;
  } else if (path[0] == '/') {
    absolute = strlen(path) < longest_path ? strcpy(to, path) : NULL;
  } else if (folder == AT_FDCWD) {
    const int why = errno;
    absolute = getcwd(to, longest_path) != NULL ? join(to, path, to) : NULL;
    errno = why;
  } else {
    struct file* const f = file_of(folder);
    if (f != NULL) {
      /* Where it is no folder, there is nothing beneath its name either. */
      absolute = f->path != NULL ? join(f->path, path, to) : NULL;
      (void)let_go(f);
    }
  }
  if (absolute != NULL && table->is_hosts(absolute)) return absolute;
  pass(what, other_path);
  return NULL;
}

int both_hosts_paths(int from_folder, const char* from, char absolute_from[longest_path],
                     int to_folder, const char* to, char absolute_to[longest_path],
                     enum counted what) {
  const int is_from = hosts_path(from_folder, from, absolute_from, what) != NULL;
  const int is_to = hosts_path(to_folder, to, absolute_to, what) != NULL;
  if (is_from == is_to) return is_from;
  errno = EXDEV;
  return -1;
}

/* The function's call of the host: `call` of the table. */
#define FORWARD(what, call)                                                                        \
  do {                                                                                             \
    const struct farcall_io_table* const to_host = enter();                                        \
    if (to_host == NULL) return -1;                                                                \
    const int64_t result = to_host->call;                                                          \
    leave();                                                                                       \
    count_forwarded(what, 0);                                                                      \
    return (int)as_libc(result);                                                                   \
  } while (0)

/* ---- opening ---- */

int open_hosts(const char* absolute, int flags, mode_t mode) {
  const struct farcall_io_table* const to = enter();
  if (to == NULL) return -1;
  struct farcall_io_opened opened = {0, 0, -1};
  /* What only names a file may do less than what reads it. */
  if ((flags & O_PATH) != 0) flags &= O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int64_t result = to->open(absolute, flags, mode, &opened);
  leave();
  count_forwarded(counted_open, 0);
  if (result < 0) return (int)as_libc(result);
  if (opened.file != 0) return use_descriptor(&opened, flags, absolute);
  count_forwarded(counted_descriptor, 0);
  (void)REAL(fcntl)(opened.descriptor, F_SETFD, (flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0);
  return opened.descriptor;
}

static int has_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/* -1: the path names none. */
static int descriptor_in(const char* path) {
  static const char* const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  static const char* const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
  for (int fd = 0; fd < 3; ++fd) {
    if (strcmp(path, names[fd]) == 0) return fd;
  }
  for (int i = 0; i < 2; ++i) {
    const size_t bytes = strlen(folders[i]);
    char* end = NULL;
    if (strncmp(path, folders[i], bytes) != 0 || path[bytes] < '0' || path[bytes] > '9') continue;
    const unsigned long fd = strtoul(path + bytes, &end, 10);
    if (*end == '\0' && fd < most_descriptors) return (int)fd;
  }
  return -1;
}

int open_copy(const char* path, int flags) {
  if (path == NULL || path[0] != '/' || (path[1] != 'd' && path[1] != 'p')) return -1;
  const int fd = descriptor_in(path);
  struct file* const f = fd >= 0 ? file_of(fd) : NULL;
  if (f == NULL) return -1;
  (void)let_go(f);
  return fcntl(fd, (flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

static int open_either(int folder, const char* path, int flags, mode_t mode) {
  char absolute[longest_path];
  const int copy = open_copy(path, flags);
  if (copy >= 0) return copy;
  if (hosts_path(folder, path, absolute, counted_open) == NULL)
    return REAL(openat)(folder, path, flags, mode);
  return open_hosts(absolute, flags, mode);
}

#define WITH_MODE(flags)                                                                           \
  mode_t mode = 0;                                                                                 \
  if (has_mode(flags)) {                                                                           \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode = (mode_t)va_arg(more, unsigned);                                                         \
    va_end(more);                                                                                  \
  }

EXPORT int open(const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_either(AT_FDCWD, path, flags, mode);
}
ALSO(open64, open);

EXPORT int openat(int folder, const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_either(folder, path, flags, mode);
}
ALSO(openat64, openat);

EXPORT int creat(const char* path, mode_t mode) {
  return open_either(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
ALSO(creat64, creat);

/* As _FORTIFY_SOURCE has it: without a mode. */
EXPORT int __open_2(const char* path, int flags);
int __open_2(const char* path, int flags) { return open_either(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char* path, int flags);
ALSO(__open64_2, __open_2);
EXPORT int __openat_2(int folder, const char* path, int flags);
int __openat_2(int folder, const char* path, int flags) {
  return open_either(folder, path, flags, 0);
}
EXPORT int __openat64_2(int folder, const char* path, int flags);
ALSO(__openat64_2, __openat_2);

/* ---- status ---- */

static void fill(struct stat* to, const struct farcall_io_status* s) {
  memset(to, 0, sizeof *to);
  to->st_dev = s->device;
  to->st_ino = s->inode;
  to->st_mode = (mode_t)s->mode;
  to->st_nlink = (nlink_t)s->links;
  to->st_uid = (uid_t)s->user;
  to->st_gid = (gid_t)s->group;
  to->st_rdev = s->special;
  to->st_size = s->size;
  to->st_blksize = (blksize_t)s->block_size;
  to->st_blocks = s->blocks;
  to->st_atim = (struct timespec){s->accessed, s->accessed_ns};
  to->st_mtim = (struct timespec){s->modified, s->modified_ns};
  to->st_ctim = (struct timespec){s->changed, s->changed_ns};
}

static struct statx_timestamp stamp(int64_t seconds, int64_t nanoseconds) {
  struct statx_timestamp t;
  memset(&t, 0, sizeof t);
  t.tv_sec = seconds;
  t.tv_nsec = (uint32_t)nanoseconds;
  return t;
}

static void fill_statx(struct statx* to, const struct farcall_io_status* s) {
  memset(to, 0, sizeof *to);
  to->stx_mask = STATX_BASIC_STATS;
  to->stx_blksize = (uint32_t)s->block_size;
  to->stx_nlink = (uint32_t)s->links;
  to->stx_uid = (uint32_t)s->user;
  to->stx_gid = (uint32_t)s->group;
  to->stx_mode = (uint16_t)s->mode;
  to->stx_ino = s->inode;
  to->stx_size = (uint64_t)s->size;
  to->stx_blocks = (uint64_t)s->blocks;
  to->stx_atime = stamp(s->accessed, s->accessed_ns);
  to->stx_mtime = stamp(s->modified, s->modified_ns);
  to->stx_ctime = stamp(s->changed, s->changed_ns);
  to->stx_dev_major = major(s->device);
  to->stx_dev_minor = minor(s->device);
  to->stx_rdev_major = major(s->special);
  to->stx_rdev_minor = minor(s->special);
}

static int path_status(const char* absolute, int follows_link, struct farcall_io_status* status) {
  FORWARD(counted_stat, stat(absolute, follows_link, status));
}

/* 1: asked, and `status` or errno is set; 0: it is libc's. */
static int ask_status(int folder, const char* path, int flags, struct farcall_io_status* status,
                      int* result) {
  if (path != NULL && path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0) {
    struct file* const f = file_of(folder);
    if (f == NULL) return 0;
    *result = stat_file(f, status);
    const int why = errno;
    (void)let_go(f);
    errno = why;
    return 1;
  }
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_stat) == NULL) return 0;
  *result = path_status(absolute, (flags & AT_SYMLINK_NOFOLLOW) == 0, status);
  return 1;
}

static int status_of(int folder, const char* path, int flags, struct stat* to, int* result) {
  struct farcall_io_status status;
  if (!ask_status(folder, path, flags, &status, result)) return 0;
  if (*result == 0) fill(to, &status);
  return 1;
}

EXPORT int stat(const char* restrict path, struct stat* restrict to) {
  int result = 0;
  return status_of(AT_FDCWD, path, 0, to, &result) ? result : REAL(stat)(path, to);
}
EXPORT int lstat(const char* restrict path, struct stat* restrict to) {
  int result = 0;
  return status_of(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, &result) ? result
                                                                     : REAL(lstat)(path, to);
}
EXPORT int fstat(int fd, struct stat* to) {
  int result = 0;
  return status_of(fd, "", AT_EMPTY_PATH, to, &result) ? result : REAL(fstat)(fd, to);
}
EXPORT int fstatat(int folder, const char* restrict path, struct stat* restrict to, int flags) {
  int result = 0;
  return status_of(folder, path, flags, to, &result) ? result
                                                     : REAL(fstatat)(folder, path, to, flags);
}
EXPORT int statx(int folder, const char* restrict path, int flags, unsigned mask,
                 struct statx* restrict to) {
  struct farcall_io_status status;
  int result = 0;
  if (!ask_status(folder, path, flags, &status, &result))
    return REAL(statx)(folder, path, flags, mask, to);
  if (result == 0) fill_statx(to, &status);
  return result;
}

/* struct stat64 is struct stat. */
EXPORT int stat64(const char* restrict path, struct stat64* restrict to) {
  return stat(path, (struct stat*)to);
}
EXPORT int lstat64(const char* restrict path, struct stat64* restrict to) {
  return lstat(path, (struct stat*)to);
}
EXPORT int fstat64(int fd, struct stat64* to) { return fstat(fd, (struct stat*)to); }
EXPORT int fstatat64(int folder, const char* restrict path, struct stat64* restrict to, int flags) {
  return fstatat(folder, path, (struct stat*)to, flags);
}

/* What programs call that were linked before glibc 2.33. */
EXPORT int __xstat(int version, const char* path, struct stat* to);
int __xstat(int version, const char* path, struct stat* to) {
  (void)version;
  return stat(path, to);
}
EXPORT int __lxstat(int version, const char* path, struct stat* to);
int __lxstat(int version, const char* path, struct stat* to) {
  (void)version;
  return lstat(path, to);
}
EXPORT int __fxstat(int version, int fd, struct stat* to);
int __fxstat(int version, int fd, struct stat* to) {
  (void)version;
  return fstat(fd, to);
}
EXPORT int __fxstatat(int version, int folder, const char* path, struct stat* to, int flags);
int __fxstatat(int version, int folder, const char* path, struct stat* to, int flags) {
  (void)version;
  return fstatat(folder, path, to, flags);
}
EXPORT int __xstat64(int version, const char* path, struct stat* to);
ALSO(__xstat64, __xstat);
EXPORT int __lxstat64(int version, const char* path, struct stat* to);
ALSO(__lxstat64, __lxstat);
EXPORT int __fxstat64(int version, int fd, struct stat* to);
ALSO(__fxstat64, __fxstat);
EXPORT int __fxstatat64(int version, int folder, const char* path, struct stat* to, int flags);
ALSO(__fxstatat64, __fxstatat);

/* ---- names ---- */

EXPORT int access(const char* path, int mode) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_access) == NULL) return REAL(access)(path, mode);
  FORWARD(counted_access, access(absolute, mode));
}

EXPORT int euidaccess(const char* path, int mode) {
  return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}
ALSO(eaccess, euidaccess);

EXPORT int faccessat(int folder, const char* path, int mode, int flags) {
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_access) == NULL)
    return REAL(faccessat)(folder, path, mode, flags);
  FORWARD(counted_access, access(absolute, mode));
}

EXPORT int truncate(const char* path, off_t size) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_truncate) == NULL)
    return REAL(truncate)(path, size);
  FORWARD(counted_truncate, truncate(absolute, size));
}
ALSO(truncate64, truncate);

EXPORT int unlink(const char* path) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_unlink) == NULL) return REAL(unlink)(path);
  FORWARD(counted_unlink, unlink(absolute));
}

EXPORT int rmdir(const char* path) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_rmdir) == NULL) return REAL(rmdir)(path);
  FORWARD(counted_rmdir, rmdir(absolute));
}

EXPORT int unlinkat(int folder, const char* path, int flags) {
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_unlink) == NULL)
    return REAL(unlinkat)(folder, path, flags);
  if ((flags & AT_REMOVEDIR) != 0) FORWARD(counted_rmdir, rmdir(absolute));
  FORWARD(counted_unlink, unlink(absolute));
}

EXPORT int remove(const char* path) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_unlink) == NULL) return REAL(remove)(path);
  if (unlink(absolute) == 0) return 0;
  return errno == EISDIR ? rmdir(absolute) : -1;
}

static int rename_either(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags, int* result) {
  char absolute_from[longest_path];
  char absolute_to[longest_path];
  const int are_hosts = both_hosts_paths(from_folder, from, absolute_from, to_folder, to,
                                         absolute_to, counted_rename);
  if (are_hosts == 0) return 0;
  *result = -1;
  const struct farcall_io_table* const table = are_hosts > 0 ? enter() : NULL;
  if (table == NULL) return 1;
  const int64_t done = table->rename(absolute_from, absolute_to, flags);
  leave();
  count_forwarded(counted_rename, 0);
  *result = (int)as_libc(done);
  return 1;
}

EXPORT int rename(const char* from, const char* to) {
  int result = 0;
  return rename_either(AT_FDCWD, from, AT_FDCWD, to, 0, &result) ? result : REAL(rename)(from, to);
}
EXPORT int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  int result = 0;
  return rename_either(from_folder, from, to_folder, to, 0, &result)
             ? result
             : REAL(renameat)(from_folder, from, to_folder, to);
}
EXPORT int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned flags) {
  int result = 0;
  return rename_either(from_folder, from, to_folder, to, flags, &result)
             ? result
             : REAL(renameat2)(from_folder, from, to_folder, to, flags);
}

EXPORT int mkdir(const char* path, mode_t mode) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_mkdir) == NULL) return REAL(mkdir)(path, mode);
  FORWARD(counted_mkdir, mkdir(absolute, mode));
}
EXPORT int mkdirat(int folder, const char* path, mode_t mode) {
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_mkdir) == NULL)
    return REAL(mkdirat)(folder, path, mode);
  FORWARD(counted_mkdir, mkdir(absolute, mode));
}

EXPORT ssize_t readlink(const char* restrict path, char* restrict to, size_t bytes) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_readlink) == NULL)
    return REAL(readlink)(path, to, bytes);
  FORWARD(counted_readlink, read_link(absolute, to, bytes));
}
EXPORT ssize_t readlinkat(int folder, const char* restrict path, char* restrict to, size_t bytes) {
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_readlink) == NULL)
    return REAL(readlinkat)(folder, path, to, bytes);
  FORWARD(counted_readlink, read_link(absolute, to, bytes));
}
