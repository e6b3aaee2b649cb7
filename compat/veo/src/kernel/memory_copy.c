/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

/* Removes the tag of an address, like veo_get_hmem_addr(). That function is not called, so that
 * libsysve does not depend on libveohmem. */
static uint64_t without_tag(uint64_t address) {
  const uint64_t tag = (uint64_t)1 << 63;
  return (address & tag) == 0 ? address : address & ~((uint64_t)31 << 59);
}

/* Copies memory by way of a pipe, because read() and write() fail with EFAULT for invalid
 * addresses. Each piece has at most one page, which fits into any pipe, so that write() does not
 * block. */
static int copy_by_pipe(char* to, const char* from, size_t size) {
  enum { most = 4096 };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return -errno;
  }
  int result = 0;
  while (size > 0 && result == 0) {
    ssize_t inside = write(ends[1], from, size < most ? size : most);
    result = inside < 0 ? -errno : 0;
    while (inside > 0 && result == 0) {
      const ssize_t got = read(ends[0], to, (size_t)inside);
      if (got < 0) {
        result = -errno;
      } else {
        inside -= got;
        to += got;
        from += got;
        size -= (size_t)got;
      }
    }
  }
  close(ends[0]);
  close(ends[1]);
  return result;
}

int farcall_veo_memory_copy(uint64_t to, uint64_t from, size_t size) {
  to = without_tag(to);
  from = without_tag(from);
  if (size == 0) {
    return 0;
  }
  if (to == 0 || from == 0 || to + size < to || from + size < from) {
    return -EFAULT;
  }
  /* Copy by a system call, because it fails with EFAULT for an invalid address; memcpy() would end
   * the process. */
  while (size > 0) {
    const struct iovec target = {(void*)(uintptr_t)to, size};
    const struct iovec source = {(void*)(uintptr_t)from, size};
    const ssize_t copied = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    if (copied == 0 || (copied < 0 && errno == EFAULT)) {
      return -EFAULT;
    }
    if (copied < 0) {
      /* Use a pipe if the system call is not available: containers may forbid it, and emulators may
       * lack it. */
      return copy_by_pipe((char*)(uintptr_t)to, (const char*)(uintptr_t)from, size);
    }
    to += (uint64_t)copied;
    from += (uint64_t)copied;
    size -= (size_t)copied;
  }
  return 0;
}
