#include "memory_copy.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* See veo_hmem.h; not called from there, because libsysve then needed libveohmem. */
static uint64_t without_tag(uint64_t address) {
  const uint64_t tag = (uint64_t)1 << 63;
  return (address & tag) == 0 ? address : address & ~((uint64_t)31 << 59);
}

/* Whether there is memory at all; it may be that it cannot be written. */
static int is_mapped(uint64_t address, size_t size) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t start = address & ~(page - 1);
  return msync((void*)(uintptr_t)start, size + (address - start), MS_ASYNC) == 0;
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
  /* The system finds out what is memory; an ordinary copy would end the process. */
  while (size > 0) {
    const struct iovec target = {(void*)(uintptr_t)to, size};
    const struct iovec source = {(void*)(uintptr_t)from, size};
    const ssize_t copied = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    if (copied <= 0) {
      if (copied == 0 || errno == EFAULT) {
        return -EFAULT;
      }
      /* Containers and emulators may not have it. */
      if (!is_mapped(to, size) || !is_mapped(from, size)) {
        return -EFAULT;
      }
      memmove((void*)(uintptr_t)to, (const void*)(uintptr_t)from, size);
      return 0;
    }
    to += (uint64_t)copied;
    from += (uint64_t)copied;
    size -= (size_t)copied;
  }
  return 0;
}
