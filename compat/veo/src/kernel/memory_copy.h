/* SPDX-License-Identifier: Apache-2.0 */

/* Copies memory within the process, between addresses that may be invalid. */
#ifndef FARCALL_COMPAT_VEO_MEMORY_COPY_H
#define FARCALL_COMPAT_VEO_MEMORY_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies memory. Tags of the addresses (veo_hmem.h) are ignored. Returns 0, -EFAULT if an address
 * is not mapped or not accessible, or another negative errno. If the function fails, it may have
 * copied a part of the bytes. */
__attribute__((visibility("hidden"))) int farcall_veo_memory_copy(uint64_t to, uint64_t from,
                                                                  size_t size);

#ifdef __cplusplus
}
#endif

#endif
