// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>
#include <utmp.h>
#include <utmpx.h>

/* Functions that <sys/mount.h> declares since glibc 2.36. */
struct mount_attr;
EXPORT int open_tree(int fd, const char* path, unsigned flags);
EXPORT int move_mount(int fd, const char* path, int to, const char* to_path, unsigned flags);
EXPORT int fspick(int fd, const char* path, unsigned flags);
EXPORT int mount_setattr(int fd, const char* path, unsigned flags, struct mount_attr* attributes,
                         size_t bytes);

/* Table of functions that are refused for files of the host. Libc would perform them on the
 * placeholder, which is a socket, or on a file of the target with the same path. */

static int is_hosts_name(int folder, const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_refused);
  return absolute != NULL;
}

/* True if one of the requests concerns a file of the host. */
static int has_hosts(struct aiocb* const* requests, int count) {
  for (int i = 0; i < count; ++i) {
    if (requests[i] != NULL && is_hosts_descriptor(requests[i]->aio_fildes)) return 1;
  }
  return 0;
}

static int has_hosts_name(char* const* paths) {
  for (; *paths != NULL; ++paths) {
    if (is_hosts_name(AT_FDCWD, *paths)) return 1;
  }
  return 0;
}

#define FD is_hosts_descriptor(fd)
#define PATH is_hosts_name(AT_FDCWD, path)

/* A row has the result's type, the function, the error number, the condition under which the call
 * is refused, the parameters, and the arguments for libc's function. */
/* clang-format off */
#define REFUSED(row)                                                                               \
  /* locks */                                                                                      \
  row(int, flock, ENOLCK, FD, (int fd, int what), (fd, what))                                      \
  row(int, lockf, ENOLCK, FD, (int fd, int what, off_t bytes), (fd, what, bytes))                  \
  /* events: like regular files, except that inotify and fanotify cannot watch other machines */   \
  row(int, epoll_ctl, EPERM, FD, (int poll, int what, int fd, struct epoll_event* event),          \
      (poll, what, fd, event))                                                                     \
  row(int, inotify_add_watch, EOPNOTSUPP, is_hosts_name(AT_FDCWD, path),                           \
      (int fd, const char* path, uint32_t events), (fd, path, events))                             \
  row(int, fanotify_mark, EOPNOTSUPP, is_hosts_name(folder, path),                                 \
      (int fd, unsigned flags, uint64_t events, int folder, const char* path),                     \
      (fd, flags, events, folder, path))                                                           \
  /* handles */                                                                                    \
  row(int, name_to_handle_at, EOPNOTSUPP, is_hosts_descriptor(folder) || is_hosts_name(folder, path), \
      (int folder, const char* path, struct file_handle* handle, int* mount, int flags),           \
      (folder, path, handle, mount, flags))                                                        \
  row(int, open_by_handle_at, EOPNOTSUPP, FD, (int fd, struct file_handle* handle, int flags),     \
      (fd, handle, flags))                                                                         \
  /* pipes: programs read and write instead */                                                     \
  row(ssize_t, splice, EINVAL, FD || is_hosts_descriptor(to),                                      \
      (int fd, off_t* at, int to, off_t* to_at, size_t bytes, unsigned flags),                     \
      (fd, at, to, to_at, bytes, flags))                                                           \
  row(ssize_t, tee, EINVAL, FD || is_hosts_descriptor(to),                                         \
      (int fd, int to, size_t bytes, unsigned flags), (fd, to, bytes, flags))                      \
  row(ssize_t, vmsplice, EBADF, FD,                                                                \
      (int fd, const struct iovec* parts, size_t count, unsigned flags), (fd, parts, count, flags)) \
  /* asynchronous reads and writes */                                                              \
  row(int, aio_read, ENOSYS, has_hosts(&request, 1), (struct aiocb* request), (request))           \
  row(int, aio_write, ENOSYS, has_hosts(&request, 1), (struct aiocb* request), (request))          \
  row(int, aio_fsync, ENOSYS, has_hosts(&request, 1), (int how, struct aiocb* request),            \
      (how, request))                                                                              \
  row(int, lio_listio, ENOSYS, has_hosts(requests, count),                                         \
      (int mode, struct aiocb* const* restrict requests, int count,                                \
       struct sigevent* restrict when_done), (mode, requests, count, when_done))                   \
  /* programs are files of the target */ \
  row(int, fexecve, EACCES, FD, (int fd, char* const words[], char* const variables[]),            \
      (fd, words, variables))                                                                      \
  row(int, execveat, EACCES, FD,                                                                   \
      (int fd, const char* path, char* const words[], char* const variables[], int flags),         \
      (fd, path, words, variables, flags))                                                         \
  /* other kinds of files */                                                                       \
  row(int, eventfd_read, EINVAL, FD, (int fd, eventfd_t* value), (fd, value))                      \
  row(int, eventfd_write, EINVAL, FD, (int fd, eventfd_t value), (fd, value))                      \
  row(int, signalfd, EINVAL, FD, (int fd, const sigset_t* signals, int flags), (fd, signals, flags)) \
  /* file systems */                                                                               \
  row(int, chroot, EOPNOTSUPP, PATH, (const char* path), (path))                                   \
  row(int, acct, EOPNOTSUPP, PATH, (const char* path), (path))                                     \
  row(int, swapon, EOPNOTSUPP, PATH, (const char* path, int flags), (path, flags))                 \
  row(int, swapoff, EOPNOTSUPP, PATH, (const char* path), (path))                                  \
  row(int, mount, EOPNOTSUPP, PATH || is_hosts_name(AT_FDCWD, source),                             \
      (const char* source, const char* path, const char* type, unsigned long flags,                \
       const void* data), (source, path, type, flags, data))                                       \
  row(int, umount, EOPNOTSUPP, PATH, (const char* path), (path))                                   \
  row(int, umount2, EOPNOTSUPP, PATH, (const char* path, int flags), (path, flags))                \
  row(int, open_tree, EOPNOTSUPP, FD || is_hosts_name(fd, path),                                   \
      (int fd, const char* path, unsigned flags), (fd, path, flags))                               \
  row(int, move_mount, EOPNOTSUPP, FD || is_hosts_name(fd, path) || is_hosts_name(to, to_path),     \
      (int fd, const char* path, int to, const char* to_path, unsigned flags),                     \
      (fd, path, to, to_path, flags))                                                              \
  row(int, fspick, EOPNOTSUPP, FD || is_hosts_name(fd, path),                                      \
      (int fd, const char* path, unsigned flags), (fd, path, flags))                               \
  row(int, mount_setattr, EOPNOTSUPP, FD || is_hosts_name(fd, path),                               \
      (int fd, const char* path, unsigned flags, struct mount_attr* attributes, size_t bytes),     \
      (fd, path, flags, attributes, bytes))                                                        \
  /* logins */ \
  row(int, utmpname, EOPNOTSUPP, PATH, (const char* path), (path)) \
  row(int, utmpxname, EOPNOTSUPP, PATH, (const char* path), (path)) \
  /* sockets */                                                                                    \
  row(int, bind, ENOTSOCK, FD, (int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes),                 \
      (fd, to, bytes))                                                                             \
  row(int, connect, ENOTSOCK, FD, (int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes),              \
      (fd, to, bytes))                                                                             \
  row(int, bindresvport, ENOTSOCK, FD, (int fd, struct sockaddr_in* to), (fd, to)) \
  row(int, listen, ENOTSOCK, FD, (int fd, int waiting), (fd, waiting))                             \
  row(int, accept, ENOTSOCK, FD,                                                                   \
      (int fd, __SOCKADDR_ARG from, socklen_t* restrict bytes), (fd, from, bytes))                 \
  row(int, accept4, ENOTSOCK, FD,                                                                  \
      (int fd, __SOCKADDR_ARG from, socklen_t* restrict bytes, int flags), (fd, from, bytes, flags)) \
  row(int, getsockname, ENOTSOCK, FD,                                                              \
      (int fd, __SOCKADDR_ARG name, socklen_t* restrict bytes), (fd, name, bytes))                 \
  row(int, getpeername, ENOTSOCK, FD,                                                              \
      (int fd, __SOCKADDR_ARG name, socklen_t* restrict bytes), (fd, name, bytes))                 \
  row(int, getsockopt, ENOTSOCK, FD,                                                               \
      (int fd, int level, int option, void* restrict to, socklen_t* restrict bytes),               \
      (fd, level, option, to, bytes))                                                              \
  row(int, setsockopt, ENOTSOCK, FD,                                                               \
      (int fd, int level, int option, const void* from, socklen_t bytes),                          \
      (fd, level, option, from, bytes))                                                            \
  row(int, shutdown, ENOTSOCK, FD, (int fd, int how), (fd, how))                                   \
  row(int, sockatmark, ENOTSOCK, FD, (int fd), (fd))                                               \
  row(ssize_t, send, ENOTSOCK, FD, (int fd, const void* from, size_t bytes, int flags),            \
      (fd, from, bytes, flags))                                                                    \
  row(ssize_t, sendto, ENOTSOCK, FD,                                                               \
      (int fd, const void* from, size_t bytes, int flags, __CONST_SOCKADDR_ARG to,                 \
       socklen_t name_bytes), (fd, from, bytes, flags, to, name_bytes))                            \
  row(ssize_t, sendmsg, ENOTSOCK, FD, (int fd, const struct msghdr* message, int flags),           \
      (fd, message, flags))                                                                        \
  row(int, sendmmsg, ENOTSOCK, FD, (int fd, struct mmsghdr* all, unsigned count, int flags),       \
      (fd, all, count, flags))                                                                     \
  row(ssize_t, recv, ENOTSOCK, FD, (int fd, void* to, size_t bytes, int flags),                    \
      (fd, to, bytes, flags))                                                                      \
  row(ssize_t, recvfrom, ENOTSOCK, FD,                                                             \
      (int fd, void* restrict to, size_t bytes, int flags, __SOCKADDR_ARG from,                    \
       socklen_t* restrict name_bytes), (fd, to, bytes, flags, from, name_bytes))

#define DEFINE_REFUSED(type, name, why, is_refused, parameters, arguments)                         \
  DECLARE_REAL(name);                                                                              \
  EXPORT type name parameters {                                                                    \
    if (!(is_refused)) return REAL(name) arguments;                                                \
    pass(counted_refused, not_offered);                                                            \
    errno = why;                                                                                   \
    return -1;                                                                                     \
  }
/* clang-format on */
REFUSED(DEFINE_REFUSED)

/* The numbers are of 64 bits with both names. */
ALSO(lockf64, lockf);
EXPORT int aio_read64(struct aiocb64* request) { return aio_read((struct aiocb*)request); }
EXPORT int aio_write64(struct aiocb64* request) { return aio_write((struct aiocb*)request); }
EXPORT int aio_fsync64(int how, struct aiocb64* request) {
  return aio_fsync(how, (struct aiocb*)request);
}
EXPORT int lio_listio64(int mode, struct aiocb64* const* restrict requests, int count,
                        struct sigevent* restrict when_done) {
  return lio_listio(mode, (struct aiocb* const*)requests, count, when_done);
}

/* fts_open() walks by functions of libc that cannot be replaced, and so would find the target's
 * own files. */
DECLARE_REAL(fts_open);
EXPORT FTS* fts_open(char* const* paths, int options,
                     int (*order)(const FTSENT**, const FTSENT**)) {
  if (!has_hosts_name(paths)) return REAL(fts_open)(paths, options, order);
  pass(counted_refused, not_offered);
  errno = EOPNOTSUPP;
  return NULL;
}
EXPORT FTS64* fts64_open(char* const* paths, int options,
                         int (*order)(const FTSENT64**, const FTSENT64**)) {
  return (FTS64*)fts_open(paths, options,
                          (int (*)(const FTSENT**, const FTSENT**))(void (*)(void))order);
}

DECLARE_REAL(updwtmp);
EXPORT void updwtmp(const char* path, const struct utmp* entry) {
  if (is_hosts_name(AT_FDCWD, path)) {
    pass(counted_refused, not_offered);
  } else {
    REAL(updwtmp)(path, entry);
  }
}
EXPORT void updwtmpx(const char* path, const struct utmpx* entry) {
  updwtmp(path, (const struct utmp*)entry);
}

/* Other names, and functions for _FORTIFY_SOURCE. */
EXPORT int __connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes);
ALSO(__connect, connect);
EXPORT ssize_t __send(int fd, const void* from, size_t bytes, int flags);
ALSO(__send, send);
EXPORT ssize_t __recv_chk(int fd, void* to, size_t bytes, size_t there, int flags);
ssize_t __recv_chk(int fd, void* to, size_t bytes, size_t there, int flags) {
  if (bytes > there) abort();
  return recv(fd, to, bytes, flags);
}
EXPORT ssize_t __recvfrom_chk(int fd, void* restrict to, size_t bytes, size_t there, int flags,
                              __SOCKADDR_ARG from, socklen_t* restrict name_bytes);
ssize_t __recvfrom_chk(int fd, void* restrict to, size_t bytes, size_t there, int flags,
                       __SOCKADDR_ARG from, socklen_t* restrict name_bytes) {
  if (bytes > there) abort();
  return recvfrom(fd, to, bytes, flags, from, name_bytes);
}
