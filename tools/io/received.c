// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Functions by which a program receives descriptors of other programs. A placeholder among them
 * becomes a file of the host, as if the program had inherited it. */

/* <sys/pidfd.h> declares the function since glibc 2.36. */
EXPORT int pidfd_getfd(int process, int fd, unsigned flags);

DECLARE_REAL(recvmsg);
DECLARE_REAL(recvmmsg);
DECLARE_REAL(pidfd_getfd);

static int is_refused(int fd) {
  if (!is_hosts_descriptor(fd)) return 0;
  pass(counted_refused, not_offered);
  errno = ENOTSOCK;
  return 1;
}

static int is_attached(void) {
  return atomic_load_explicit(&attached, memory_order_acquire) != NULL;
}

static void adopt_all(struct msghdr* message) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      memcpy(&fd, (const char*)c + at, sizeof fd);
      adopt_received(fd);
    }
  }
}

EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  if (is_refused(fd)) return -1;
  const ssize_t got = REAL(recvmsg)(fd, message, flags);
  if (got >= 0 && message->msg_controllen > 0 && is_attached()) adopt_all(message);
  return got;
}

EXPORT int recvmmsg(int fd, struct mmsghdr* all, unsigned count, int flags,
                    struct timespec* timeout) {
  if (is_refused(fd)) return -1;
  const int got = REAL(recvmmsg)(fd, all, count, flags, timeout);
  for (int i = 0; i < got && is_attached(); ++i)
    adopt_all(&all[i].msg_hdr);
  return got;
}

int pidfd_getfd(int process, int fd, unsigned flags) {
  const int got = REAL(pidfd_getfd)(process, fd, flags);
  if (got >= 0 && is_attached()) adopt_received(got);
  return got;
}
