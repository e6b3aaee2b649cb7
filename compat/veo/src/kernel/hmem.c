/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the functions of veo_hmem.h. This file is part of libveo for programs and of
 * libveohmem for kernels. */
#include <veo_hmem.h>

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The layout of tags must not change, because other libraries depend on it. */
#define TAG_BIT ((uint64_t)1 << 63)
#define IDENTIFIER_SHIFT 59
#define IDENTIFIERS 16
#define TAG_MASK (TAG_BIT | (uint64_t)(IDENTIFIERS - 1) << IDENTIFIER_SHIFT)

int veo_is_ve_addr(const void* addr) { return ((uintptr_t)addr & TAG_BIT) != 0; }

void* veo_get_hmem_addr(void* addr) {
  return veo_is_ve_addr(addr) ? (void*)((uintptr_t)addr & ~TAG_MASK) : addr;
}

int veo_get_max_proc_identifier(void) { return IDENTIFIERS; }

int veo_get_proc_identifier_from_hmem(const void* addr) {
  if (!veo_is_ve_addr(addr)) {
    return -1;
  }
  return (int)(((uintptr_t)addr & ~TAG_BIT) >> IDENTIFIER_SHIFT);
}

signed long syscall_wrapper(int number, signed long a0, signed long a1, signed long a2,
                            signed long a3, signed long a4, signed long a5) {
  const int saved = errno;
  const long result = syscall(number, a0, a1, a2, a3, a4, a5);
  const long error = errno;
  errno = saved;
  return result == -1 ? -error : result;
}
