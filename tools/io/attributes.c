// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

/* Functions for modes, owners and times of files, for extended attributes and for the space of
 * file systems. The host does not offer extended attributes. */

DECLARE_REAL(chmod);
DECLARE_REAL(fchmod);
DECLARE_REAL(fchmodat);
DECLARE_REAL(chown);
DECLARE_REAL(lchown);
DECLARE_REAL(fchown);
DECLARE_REAL(fchownat);
DECLARE_REAL(utime);
DECLARE_REAL(utimes);
DECLARE_REAL(lutimes);
DECLARE_REAL(futimes);
DECLARE_REAL(futimesat);
DECLARE_REAL(utimensat);
DECLARE_REAL(futimens);
DECLARE_REAL(statfs);
DECLARE_REAL(fstatfs);
DECLARE_REAL(statvfs);
DECLARE_REAL(fstatvfs);

/* A file of the host as a call names it, either by its path or by a descriptor. */
struct named {
  struct space space;
  const char* path; /* null: use `file` */
  struct file* file;
};
static void leave_named(struct named* n) { leave_space(&n->space); }
/* Declares a variable whose memory is freed at the end of its scope. */
#define NAMED(name)                                                                                \
  struct named name __attribute__((cleanup(leave_named)));                                         \
  name.space.longer = NULL

/* Finds the file of the host that a descriptor represents, and stores it in `n`. Returns 0 if the
 * file is local. */
static int find_open(struct named* n, int fd) {
  n->path = NULL;
  n->file = file_of(fd);
  return n->file != NULL;
}

/* Finds the file of the host that a call names, and stores it in `n`. Returns 0 if the file is
 * local. If `path` is empty and AT_EMPTY_PATH is set, `folder` is the descriptor of the file
 * itself. */
static int find(struct named* n, int folder, const char* path, int flags, enum counted what) {
  if ((flags & AT_EMPTY_PATH) != 0 && is_text(path) && path[0] == '\0') return find_open(n, folder);
  n->file = NULL;
  n->path = hosts_path(folder, path, &n->space, what);
  return n->path != NULL;
}

/* True if the host has passed the open file, and the file is beneath a read-only prefix. The kernel
 * would let the target change the mode, owner and times. Sets EACCES. */
static int is_passed_read_only(int fd) {
  SPACE(space);
  if (atomic_load_explicit(&attached, memory_order_acquire) == NULL) return 0;
  const char* const name = name_of_descriptor(fd, &space, 1);
  if (name == NULL || is_hosts_path(name) != 2) return 0;
  errno = EACCES;
  return 1;
}

enum { attribute_flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW };

static uint64_t number_of(const struct named* n) { return n->file != NULL ? n->file->number : 0; }

/* Ends a call on `n`: releases the file, counts the call, and returns the call's result. */
static int end(struct named* n, int64_t result, enum counted what) {
  return forwarded(what, n->file != NULL ? done_with(n->file, result) : result);
}

/* ---- modes ---- */

static int set_mode(struct named* n, mode_t mode) {
  return end(n, host_set_mode(number_of(n), n->path, mode), counted_chmod);
}

EXPORT int chmod(const char* path, mode_t mode) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_chmod) ? set_mode(&n, mode) : REAL(chmod)(path, mode);
}

EXPORT int fchmod(int fd, mode_t mode) {
  NAMED(n);
  return find_open(&n, fd)         ? set_mode(&n, mode)
         : is_passed_read_only(fd) ? -1
                                   : REAL(fchmod)(fd, mode);
}

EXPORT int fchmodat(int folder, const char* path, mode_t mode, int flags) {
  NAMED(n);
  if (!find(&n, folder, path, flags, counted_chmod))
    return REAL(fchmodat)(folder, path, mode, flags);
  if (!are_known(flags, attribute_flags)) return end(&n, -1, counted_chmod);
  struct stat s;
  if (n.path != NULL && (flags & AT_SYMLINK_NOFOLLOW) != 0) {
    if (lstat(n.path, &s) != 0) return -1;
    if (S_ISLNK(s.st_mode)) {
      errno = EOPNOTSUPP;
      return -1;
    }
  }
  return set_mode(&n, mode);
}

EXPORT int lchmod(const char* path, mode_t mode) {
  return fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW);
}

/* ---- owners ---- */

static int set_owner(struct named* n, int follows_link, uid_t user, gid_t group) {
  const int64_t result = host_set_owner(number_of(n), n->path, follows_link, user, group);
  return end(n, result, counted_chown);
}

EXPORT int chown(const char* path, uid_t user, gid_t group) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_chown) ? set_owner(&n, 1, user, group)
                                                    : REAL(chown)(path, user, group);
}

EXPORT int lchown(const char* path, uid_t user, gid_t group) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_chown) ? set_owner(&n, 0, user, group)
                                                    : REAL(lchown)(path, user, group);
}

EXPORT int fchown(int fd, uid_t user, gid_t group) {
  NAMED(n);
  return find_open(&n, fd)         ? set_owner(&n, 1, user, group)
         : is_passed_read_only(fd) ? -1
                                   : REAL(fchown)(fd, user, group);
}

EXPORT int fchownat(int folder, const char* path, uid_t user, gid_t group, int flags) {
  NAMED(n);
  if (!find(&n, folder, path, flags, counted_chown))
    return REAL(fchownat)(folder, path, user, group, flags);
  return are_known(flags, attribute_flags)
             ? set_owner(&n, (flags & AT_SYMLINK_NOFOLLOW) == 0, user, group)
             : end(&n, -1, counted_chown);
}

/* ---- times ---- */

static int set_times(struct named* n, int follows_link, const struct timespec* times) {
  struct farcall_io_times both = {0, UTIME_NOW, 0, UTIME_NOW};
  if (times != NULL && !is_readable(times, 2 * sizeof *times)) return end(n, -1, counted_utimes);
  if (times != NULL) {
    both = (struct farcall_io_times){times[0].tv_sec, times[0].tv_nsec, times[1].tv_sec,
                                     times[1].tv_nsec};
  }
  return end(n, host_set_times(number_of(n), n->path, follows_link, &both), counted_utimes);
}

static int set_microseconds(struct named* n, int follows_link, const struct timeval* times) {
  if (times == NULL) return set_times(n, follows_link, NULL);
  if (!is_readable(times, 2 * sizeof *times)) return end(n, -1, counted_utimes);
  struct timespec both[2];
  for (int i = 0; i < 2; ++i) {
    /* Refuse values outside this range, because struct timespec gives some of them a special
     * meaning: UTIME_NOW and UTIME_OMIT. */
    if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000) {
      errno = EINVAL;
      return end(n, -1, counted_utimes);
    }
    both[i] = (struct timespec){times[i].tv_sec, times[i].tv_usec * 1000};
  }
  return set_times(n, follows_link, both);
}

EXPORT int utime(const char* path, const struct utimbuf* times) {
  NAMED(n);
  if (!find(&n, AT_FDCWD, path, 0, counted_utimes)) return REAL(utime)(path, times);
  if (times == NULL) return set_times(&n, 1, NULL);
  if (!is_readable(times, sizeof *times)) return end(&n, -1, counted_utimes);
  const struct timespec both[2] = {{times->actime, 0}, {times->modtime, 0}};
  return set_times(&n, 1, both);
}

EXPORT int utimes(const char* path, const struct timeval times[2]) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_utimes) ? set_microseconds(&n, 1, times)
                                                     : REAL(utimes)(path, times);
}

EXPORT int lutimes(const char* path, const struct timeval times[2]) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_utimes) ? set_microseconds(&n, 0, times)
                                                     : REAL(lutimes)(path, times);
}

EXPORT int futimes(int fd, const struct timeval times[2]) {
  NAMED(n);
  return find_open(&n, fd)         ? set_microseconds(&n, 1, times)
         : is_passed_read_only(fd) ? -1
                                   : REAL(futimes)(fd, times);
}

EXPORT int futimesat(int folder, const char* path, const struct timeval times[2]) {
  NAMED(n);
  /* Without a path, as libc's function does. */
  const int is_hosts =
      path == NULL ? find_open(&n, folder) : find(&n, folder, path, 0, counted_utimes);
  return is_hosts ? set_microseconds(&n, 1, times) : REAL(futimesat)(folder, path, times);
}

/* True if a call changes no time. The system then does not look at the path, either. */
static int are_omitted(const struct timespec times[2]) {
  return times != NULL && is_readable(times, 2 * sizeof *times) && times[0].tv_nsec == UTIME_OMIT &&
         times[1].tv_nsec == UTIME_OMIT;
}

EXPORT int utimensat(int folder, const char* path, const struct timespec times[2], int flags) {
  NAMED(n);
  if (are_omitted(times)) return REAL(utimensat)(folder, path, times, flags);
  if (!find(&n, folder, path, flags, counted_utimes))
    return REAL(utimensat)(folder, path, times, flags);
  return are_known(flags, attribute_flags)
             ? set_times(&n, (flags & AT_SYMLINK_NOFOLLOW) == 0, times)
             : end(&n, -1, counted_utimes);
}

EXPORT int futimens(int fd, const struct timespec times[2]) {
  NAMED(n);
  return find_open(&n, fd)         ? set_times(&n, 1, times)
         : is_passed_read_only(fd) ? -1
                                   : REAL(futimens)(fd, times);
}

/* ---- space ---- */

static int space_of(struct named* n, struct farcall_io_space* space) {
  return end(n, host_space(number_of(n), n->path, space), counted_statfs);
}

static int fill_statfs(struct named* n, struct statfs* to) {
  struct farcall_io_space s;
  if (space_of(n, &s) != 0 || !is_space(to, sizeof *to)) return -1;
  memset(to, 0, sizeof *to);
  to->f_type = (__typeof__(to->f_type))s.type;
  to->f_bsize = (__typeof__(to->f_bsize))s.block_size;
  to->f_frsize = (__typeof__(to->f_frsize))s.fragment_size;
  to->f_blocks = s.blocks;
  to->f_bfree = s.free_blocks;
  to->f_bavail = s.available_blocks;
  to->f_files = s.files;
  to->f_ffree = s.free_files;
  to->f_namelen = (__typeof__(to->f_namelen))s.max_name;
  to->f_flags = (__typeof__(to->f_flags))s.flags;
  return 0;
}

static int fill_statvfs(struct named* n, struct statvfs* to) {
  struct farcall_io_space s;
  if (space_of(n, &s) != 0 || !is_space(to, sizeof *to)) return -1;
  memset(to, 0, sizeof *to);
  to->f_bsize = s.block_size;
  to->f_frsize = s.fragment_size;
  to->f_blocks = s.blocks;
  to->f_bfree = s.free_blocks;
  to->f_bavail = s.available_blocks;
  to->f_files = s.files;
  to->f_ffree = s.free_files;
  to->f_favail = s.available_files;
  to->f_fsid = s.device;
  to->f_flag = s.flags;
  to->f_namemax = s.max_name;
  return 0;
}

EXPORT int statfs(const char* path, struct statfs* to) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_statfs) ? fill_statfs(&n, to) : REAL(statfs)(path, to);
}
EXPORT int fstatfs(int fd, struct statfs* to) {
  NAMED(n);
  return find_open(&n, fd) ? fill_statfs(&n, to) : REAL(fstatfs)(fd, to);
}
EXPORT int statvfs(const char* restrict path, struct statvfs* restrict to) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_statfs) ? fill_statvfs(&n, to)
                                                     : REAL(statvfs)(path, to);
}
EXPORT int fstatvfs(int fd, struct statvfs* to) {
  NAMED(n);
  return find_open(&n, fd) ? fill_statvfs(&n, to) : REAL(fstatvfs)(fd, to);
}
/* The structures with 64 in their names have the same layout. */
EXPORT int statfs64(const char* path, struct statfs64* to) {
  return statfs(path, (struct statfs*)to);
}
EXPORT int fstatfs64(int fd, struct statfs64* to) { return fstatfs(fd, (struct statfs*)to); }
EXPORT int statvfs64(const char* restrict path, struct statvfs64* restrict to) {
  return statvfs(path, (struct statvfs*)to);
}
EXPORT int fstatvfs64(int fd, struct statvfs64* to) { return fstatvfs(fd, (struct statvfs*)to); }

EXPORT int __statfs(const char* path, struct statfs* to);
int __statfs(const char* path, struct statfs* to) { return statfs(path, to); }

/* ---- limits ---- */

DECLARE_REAL(pathconf);
DECLARE_REAL(fpathconf);

/* Returns a limit of the host's file system, of which the host tells the length of names. The
 * others are Linux's, which libc knows for each file. */
static long limit_of(struct named* n, int what) {
  struct farcall_io_space s;
  if (space_of(n, &s) != 0) return -1;
  return what == _PC_NAME_MAX ? (long)s.max_name : REAL(pathconf)("/", what);
}

EXPORT long pathconf(const char* path, int what) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_statfs) ? limit_of(&n, what)
                                                     : REAL(pathconf)(path, what);
}
EXPORT long fpathconf(int fd, int what) {
  NAMED(n);
  return find_open(&n, fd) ? limit_of(&n, what) : REAL(fpathconf)(fd, what);
}

/* ---- extended attributes ---- */

static int by_path(const char* path) {
  NAMED(n);
  return find(&n, AT_FDCWD, path, 0, counted_xattr);
}
static int by_descriptor(int fd) {
  struct file* const f = file_of(fd);
  return f != NULL && done_with(f, 1) != 0;
}
static int not_supported(void) {
  pass(counted_xattr, not_offered);
  errno = ENOTSUP;
  return -1;
}

#define DEFINE_XATTR(type, name, of, parameters, arguments)                                        \
  DECLARE_REAL(name);                                                                              \
  EXPORT type name parameters { return of ? not_supported() : REAL(name) arguments; }

DEFINE_XATTR(ssize_t, getxattr, by_path(path),
             (const char* path, const char* name, void* to, size_t bytes), (path, name, to, bytes))
DEFINE_XATTR(ssize_t, lgetxattr, by_path(path),
             (const char* path, const char* name, void* to, size_t bytes), (path, name, to, bytes))
DEFINE_XATTR(ssize_t, fgetxattr, by_descriptor(fd),
             (int fd, const char* name, void* to, size_t bytes), (fd, name, to, bytes))
DEFINE_XATTR(ssize_t, listxattr, by_path(path), (const char* path, char* to, size_t bytes),
             (path, to, bytes))
DEFINE_XATTR(ssize_t, llistxattr, by_path(path), (const char* path, char* to, size_t bytes),
             (path, to, bytes))
DEFINE_XATTR(ssize_t, flistxattr, by_descriptor(fd), (int fd, char* to, size_t bytes),
             (fd, to, bytes))
DEFINE_XATTR(int, setxattr, by_path(path),
             (const char* path, const char* name, const void* from, size_t bytes, int flags),
             (path, name, from, bytes, flags))
DEFINE_XATTR(int, lsetxattr, by_path(path),
             (const char* path, const char* name, const void* from, size_t bytes, int flags),
             (path, name, from, bytes, flags))
DEFINE_XATTR(int, fsetxattr, by_descriptor(fd),
             (int fd, const char* name, const void* from, size_t bytes, int flags),
             (fd, name, from, bytes, flags))
DEFINE_XATTR(int, removexattr, by_path(path), (const char* path, const char* name), (path, name))
DEFINE_XATTR(int, lremovexattr, by_path(path), (const char* path, const char* name), (path, name))
DEFINE_XATTR(int, fremovexattr, by_descriptor(fd), (int fd, const char* name), (fd, name))
