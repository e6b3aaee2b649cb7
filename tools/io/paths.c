// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* ---- paths of the host ---- */

/* Puts `path` behind the path of a folder, which is in memory with space for both. */
static const char* append(char* folder, const char* path, size_t bytes) {
  const size_t at = strlen(folder);
  folder[at] = '/';
  memcpy(folder + at + 1, path, bytes + 1);
  return folder;
}

char* name_of_descriptor(int fd, struct space* to, size_t more) {
  char link[32] = "/proc/self/fd/";
  char* at = link + strlen(link);
  unsigned places = 1;
  for (unsigned rest = (unsigned)fd; rest >= 10; rest /= 10)
    places *= 10;
  for (; places > 0; places /= 10)
    *at++ = (char)('0' + (unsigned)fd / places % 10);
  *at = '\0';
  const int why = errno;
  size_t space = sizeof to->here;
  char* name = to->here;
  ssize_t got = -1;
  if (fd >= 0) got = REAL(readlink)(link, name, space);
  if (got >= 0 && (size_t)got + more >= space) {
    space = PATH_MAX + more;
    name = reserve(to, space);
    got = name != NULL ? REAL(readlink)(link, name, PATH_MAX) : -1;
  }
  errno = why;
  if (got <= 0 || got >= PATH_MAX || name[0] != '/') return NULL;
  name[got] = '\0';
  return name;
}

/* Returns the path of the working folder, and its number if it is at the host, with `more` bytes of
 * memory behind it, or null. */
static char* name_of_working_folder(struct space* to, size_t more, uint64_t* number) {
  const int why = errno;
  size_t bytes = copy_working_folder(to->here, sizeof to->here);
  char* name = to->here;
  long got = (long)bytes;
  if (bytes == 0) {
    got = syscall(SYS_getcwd, to->here, sizeof to->here);
    bytes = got > 0 ? (size_t)got : PATH_MAX;
  }
  if (bytes + more >= sizeof to->here) {
    const int is_hosts = copy_working_folder(NULL, 0) != 0;
    name = reserve(to, bytes + 1 + more);
    if (name == NULL) return NULL;
    got = is_hosts ? (long)copy_working_folder(name, bytes + 1)
                   : syscall(SYS_getcwd, name, bytes + 1);
  }
  errno = why;
  *number = working_folder_number();
  return got > 0 && name[0] == '/' ? name : NULL;
}

/* Returns the path of a folder that is open, and its number if it is at the host, with `more` bytes
 * of memory behind it, or null. */
static char* name_of_folder(int fd, struct space* to, size_t more, uint64_t* number) {
  struct file* const f = file_of(fd);
  if (f == NULL) return name_of_descriptor(fd, to, more);
  /* Only a folder has a path here, because only a folder can have files beneath it. */
  char* const name = f->path != NULL ? reserve(to, strlen(f->path) + 1 + more) : NULL;
  if (name != NULL) strcpy(name, f->path);
  *number = f->number;
  (void)done_with(f, 0);
  return name;
}

const char* hosts_path(int folder, const char* path, struct space* to, enum counted what) {
  if (atomic_load_explicit(&attached, memory_order_acquire) == NULL) {
    pass(what, before_job);
    return NULL;
  }
  const char* absolute = NULL;
  uint64_t number = 0;
  const size_t bytes = text_length(path);
  if (bytes > 0 && path[0] == '/') {
    absolute = path;
  } else if (bytes > 0 && bytes < max_path) {
    char* const of = folder == AT_FDCWD ? name_of_working_folder(to, bytes + 2, &number)
                                        : name_of_folder(folder, to, bytes + 2, &number);
    if (of != NULL) absolute = append(of, path, bytes);
  }
  if (absolute != NULL && bytes < max_path && is_hosts_path(absolute)) {
    begins_at(absolute, number);
    return absolute;
  }
  pass(what, other_path);
  return NULL;
}

void leave_both(struct both_paths* paths) {
  leave_space(&paths->from_space);
  leave_space(&paths->to_space);
}

/* True if a path can begin at the folder. Otherwise sets EBADF. */
static int is_folder(int folder, const char* path) {
  return path[0] == '/' || folder == AT_FDCWD || REAL(fcntl)(folder, F_GETFD) >= 0;
}

int both_hosts_paths(int from_folder, const char* from, int to_folder, const char* to,
                     struct both_paths* found, enum counted what) {
  found->from = hosts_path(from_folder, from, &found->from_space, what);
  found->to = hosts_path(to_folder, to, &found->to_space, what);
  if ((found->from != NULL) == (found->to != NULL)) return found->from != NULL;
  if (!is_text(from) || !is_text(to)) {
    errno = EFAULT;
  } else if (*from == '\0' || *to == '\0') {
    errno = ENOENT;
  } else if (is_folder(from_folder, from) && is_folder(to_folder, to)) {
    errno = EXDEV;
  }
  return -1;
}

/* ---- opening ---- */

int open_hosts(const char* absolute, int flags, mode_t mode) {
  struct farcall_io_opened opened = {0, 0, -1};
  /* With O_PATH, remove all other flags but these, as the kernel does. A descriptor that only
   * names a file must not truncate or create it. */
  if ((flags & O_TMPFILE) == O_TMPFILE && (flags & O_PATH) == 0) {
    /* Such a file could get no name, because linkat() would name it by /proc/self/fd. Programs make
     * a file with a name instead. */
    pass(counted_open, not_offered);
    errno = EOPNOTSUPP;
    return -1;
  }
  if ((flags & O_PATH) != 0) flags &= O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (forwarded(counted_open, host_open(absolute, flags, mode, &opened)) < 0) return -1;
  if (opened.file != 0) return use_descriptor(&opened, flags, absolute);
  count_forwarded(counted_descriptor, 0);
  (void)REAL(fcntl)(opened.descriptor, F_SETFD, (flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0);
  return opened.descriptor;
}

static int has_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Returns the descriptor that a path such as /dev/fd/N or /dev/stdin names. Returns -1 for other
 * paths. */
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
    if (*end == '\0' && fd < max_descriptors) return (int)fd;
  }
  return -1;
}

int open_copy(const char* path, int flags) {
  if (atomic_load_explicit(&attached, memory_order_acquire) == NULL) return -1;
  if (text_length(path) == 0 || path[0] != '/' || (path[1] != 'd' && path[1] != 'p')) return -1;
  const int fd = descriptor_in(path);
  struct file* const f = fd >= 0 ? file_of(fd) : NULL;
  if (f == NULL) return -1;
  (void)done_with(f, 0);
  return fcntl(fd, (flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

static int open_either(int folder, const char* path, int flags, mode_t mode) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_open);
  if (absolute != NULL) return open_hosts(absolute, flags, mode);
  const int copy = open_copy(path, flags);
  return copy >= 0 ? copy : new_of_libc(REAL(openat)(folder, path, flags, mode));
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

EXPORT int __open(const char* path, int flags, ...);
int __open(const char* path, int flags, ...) {
  WITH_MODE(flags)
  return open_either(AT_FDCWD, path, flags, mode);
}
EXPORT int __open64(const char* path, int flags, ...);
ALSO(__open64, __open);

/* For _FORTIFY_SOURCE: without a mode. */
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

int are_known(int flags, int known) {
  if ((flags & ~known) == 0) return 1;
  errno = EINVAL;
  return 0;
}

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

enum { status_flags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW };

/* If the file is the host's, gets its status from the host, and returns 1 with the call's result
 * in `result`. Returns 0 if the file is libc's. */
static int ask_status(int folder, const char* path, int flags, int known,
                      struct farcall_io_status* status, int* result) {
  if ((flags & AT_EMPTY_PATH) != 0 && (path == NULL || (is_text(path) && path[0] == '\0'))) {
    struct file* const f = file_of(folder);
    if (f == NULL) return 0;
    *result = (int)done_with(f, stat_file(f, status));
    return 1;
  }
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_stat);
  if (absolute == NULL) return 0;
  *result = -1;
  if (!are_known(flags, known)) return 1;
  const int follows_link = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  *result = forwarded(counted_stat, host_stat(absolute, follows_link, status));
  return 1;
}

static int status_of(int folder, const char* path, int flags, struct stat* to, int* result) {
  struct farcall_io_status status;
  if (!ask_status(folder, path, flags, status_flags, &status, result)) return 0;
  if (*result == 0 && !is_space(to, sizeof *to)) *result = -1;
  if (*result == 0) fill(to, &status);
  return 1;
}

/* If the system has found a socket because the path names a descriptor of a host's file, such as
 * /dev/stdin, gets the status of that file. Returns the result of the call. */
static int look_behind(const char* path, struct stat* to) {
  if (!S_ISSOCK(to->st_mode) || atomic_load(&attached) == NULL) return 0;
  struct file* const f = file_of(descriptor_in(path));
  if (f == NULL) return 0;
  struct farcall_io_status status;
  const int result = (int)done_with(f, stat_file(f, &status));
  if (result == 0) fill(to, &status);
  return result;
}

EXPORT int stat(const char* restrict path, struct stat* restrict to) {
  int result = 0;
  if (status_of(AT_FDCWD, path, 0, to, &result)) return result;
  return REAL(stat)(path, to) == 0 ? look_behind(path, to) : -1;
}
EXPORT int lstat(const char* restrict path, struct stat* restrict to) {
  int result = 0;
  return status_of(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, &result) ? result
                                                                     : REAL(lstat)(path, to);
}
EXPORT int fstat(int fd, struct stat* to) {
  int result = 0;
  return status_of(fd, NULL, AT_EMPTY_PATH, to, &result) ? result : REAL(fstat)(fd, to);
}
EXPORT int isfdtype(int fd, int type) {
  struct stat s;
  return fstat(fd, &s) != 0 ? -1 : (s.st_mode & S_IFMT) == (mode_t)type;
}
EXPORT int fstatat(int folder, const char* restrict path, struct stat* restrict to, int flags) {
  int result = 0;
  if (status_of(folder, path, flags, to, &result)) return result;
  if (REAL(fstatat)(folder, path, to, flags) != 0) return -1;
  return (flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) == 0 ? look_behind(path, to) : 0;
}
EXPORT int statx(int folder, const char* restrict path, int flags, unsigned mask,
                 struct statx* restrict to) {
  struct farcall_io_status status;
  int result = 0;
  if (!ask_status(folder, path, flags, status_flags | AT_STATX_SYNC_TYPE, &status, &result)) {
    result = REAL(statx)(folder, path, flags, mask, to);
    if (result != 0 || !S_ISSOCK(to->stx_mode) ||
        (flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
      return result;
    struct file* const f = atomic_load(&attached) != NULL ? file_of(descriptor_in(path)) : NULL;
    if (f == NULL) return result;
    result = (int)done_with(f, stat_file(f, &status));
  }
  if (result == 0 && !is_space(to, sizeof *to)) result = -1;
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

/* Programs that were linked before glibc 2.33 call this function. */
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
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_access);
  if (absolute == NULL) return REAL(access)(path, mode);
  return forwarded(counted_access, host_access(absolute, mode));
}

EXPORT int euidaccess(const char* path, int mode) {
  return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}
ALSO(eaccess, euidaccess);

/* Checks the access to an open file, for which the host has no operation: refuses a right that no
 * user has. */
static int access_open(struct file* f, int mode) {
  struct farcall_io_status status;
  if (stat_file(f, &status) != 0) return -1;
  const unsigned all = (unsigned)(status.mode >> 6 | status.mode >> 3 | status.mode);
  if (((unsigned)mode & 7 & ~all) == 0) return 0;
  errno = EACCES;
  return -1;
}

EXPORT int faccessat(int folder, const char* path, int mode, int flags) {
  if ((flags & AT_EMPTY_PATH) != 0 && is_text(path) && path[0] == '\0') {
    struct file* const f = file_of(folder);
    if (f != NULL) return (int)done_with(f, access_open(f, mode));
  }
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_access);
  if (absolute == NULL) return REAL(faccessat)(folder, path, mode, flags);
  if (!are_known(flags, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return -1;
  struct stat s;
  if ((flags & AT_SYMLINK_NOFOLLOW) != 0) {
    if (lstat(absolute, &s) != 0) return -1;
    /* Linux lets each user access links. */
    if (S_ISLNK(s.st_mode)) return 0;
  }
  return forwarded(counted_access, host_access(absolute, mode));
}

EXPORT int truncate(const char* path, off_t size) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_truncate);
  if (absolute == NULL) return REAL(truncate)(path, size);
  return forwarded(counted_truncate, host_truncate(absolute, size));
}
ALSO(truncate64, truncate);

/* True if the last word of a path is ".". The kernel has errors of its own for such paths. */
static int ends_with_dot(const char* path) {
  size_t bytes = strlen(path);
  while (bytes > 0 && path[bytes - 1] == '/')
    --bytes;
  return bytes > 0 && path[bytes - 1] == '.' && (bytes == 1 || path[bytes - 2] == '/');
}

static int unlink_hosts(const char* absolute) {
  const int result = forwarded(counted_unlink, host_unlink(absolute));
  if (result != 0 && errno == EINVAL && ends_with_dot(absolute)) errno = EISDIR;
  return result;
}

EXPORT int unlink(const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_unlink);
  return absolute == NULL ? REAL(unlink)(path) : unlink_hosts(absolute);
}

EXPORT int rmdir(const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_rmdir);
  if (absolute == NULL) return REAL(rmdir)(path);
  return forwarded(counted_rmdir, host_rmdir(absolute));
}

EXPORT int unlinkat(int folder, const char* path, int flags) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_unlink);
  if (absolute == NULL) return REAL(unlinkat)(folder, path, flags);
  if (!are_known(flags, AT_REMOVEDIR)) return -1;
  if ((flags & AT_REMOVEDIR) != 0) return forwarded(counted_rmdir, host_rmdir(absolute));
  return unlink_hosts(absolute);
}

EXPORT int remove(const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_unlink);
  if (absolute == NULL) return REAL(remove)(path);
  if (unlink(absolute) == 0) return 0;
  return errno == EISDIR ? rmdir(absolute) : -1;
}

static int rename_either(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags, int* result) {
  BOTH_PATHS(both);
  const int are_hosts = both_hosts_paths(from_folder, from, to_folder, to, &both, counted_rename);
  if (are_hosts == 0) return 0;
  *result = -1;
  if (are_hosts > 0)
    *result = forwarded(counted_rename, host_rename(both.from, both.to, (int)flags));
  if (are_hosts > 0 && *result != 0 && errno == EINVAL &&
      (ends_with_dot(both.from) || ends_with_dot(both.to)))
    errno = EBUSY;
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
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_mkdir);
  if (absolute == NULL) return REAL(mkdir)(path, mode);
  return forwarded(counted_mkdir, host_mkdir(absolute, mode));
}
EXPORT int mkdirat(int folder, const char* path, mode_t mode) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_mkdir);
  if (absolute == NULL) return REAL(mkdirat)(folder, path, mode);
  return forwarded(counted_mkdir, host_mkdir(absolute, mode));
}

EXPORT ssize_t readlink(const char* restrict path, char* restrict to, size_t bytes) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_readlink);
  if (absolute == NULL) return REAL(readlink)(path, to, bytes);
  return forwarded(counted_readlink, host_read_link(absolute, to, bytes));
}
EXPORT ssize_t readlinkat(int folder, const char* restrict path, char* restrict to, size_t bytes) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_readlink);
  if (absolute == NULL) return REAL(readlinkat)(folder, path, to, bytes);
  return forwarded(counted_readlink, host_read_link(absolute, to, bytes));
}
EXPORT ssize_t __readlink_chk(const char* path, char* to, size_t bytes, size_t there);
ssize_t __readlink_chk(const char* path, char* to, size_t bytes, size_t there) {
  if (bytes > there) abort();
  return readlink(path, to, bytes);
}
EXPORT ssize_t __readlinkat_chk(int folder, const char* path, char* to, size_t bytes, size_t there);
ssize_t __readlinkat_chk(int folder, const char* path, char* to, size_t bytes, size_t there) {
  if (bytes > there) abort();
  return readlinkat(folder, path, to, bytes);
}
