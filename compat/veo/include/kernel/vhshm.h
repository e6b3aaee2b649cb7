/* SPDX-License-Identifier: Apache-2.0 */

/* System V shared memory of the host, for kernels. In this implementation these are the segments of
 * the machine on which the kernel runs. Link with -lveio. */
#ifndef FARCALL_COMPAT_VEO_VHSHM_H
#define FARCALL_COMPAT_VEO_VHSHM_H

#include <stddef.h>
#include <sys/shm.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the identifier of a segment that the host has created, like shmget(2). Returns -1 and
 * sets errno if it fails. `flags` must be 0 or SHM_HUGETLB. SHM_HUGETLB has no effect, because it
 * only matters when a segment is created. */
int vh_shmget(key_t key, size_t size, int flags);

/* Attaches a segment to this process and returns its address. Stores the address for vedma.h in
 * *vehva, which is the same address. `address` must be NULL, and `flags` 0 or SHM_RDONLY; other
 * values fail with EINVAL. Returns (void*)-1 and sets errno if it fails. */
void* vh_shmat(int id, const void* address, int flags, void** vehva);

/* Detaches a segment from this process. Returns 0, or -1 if it fails. */
int vh_shmdt(const void* address);

#ifdef __cplusplus
}
#endif

#endif
