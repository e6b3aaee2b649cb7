/* System V shared memory of the host, for kernels: segments of this machine. -lveio. */
#ifndef FARCALL_COMPAT_VEO_VHSHM_H
#define FARCALL_COMPAT_VEO_VHSHM_H

#include <stddef.h>
#include <sys/shm.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of a segment that the host has made, as shmget(2) finds it. Flags may be 0 or
 * SHM_HUGETLB, which only says what the segment is. -1 with errno. */
int vh_shmget(key_t key, size_t size, int flags);

/* Attaches it; *vehva gets the address for vedma.h, which is the same here. `address` is NULL, and
 * flags 0 or SHM_RDONLY, else EINVAL. (void*)-1 with errno. */
void* vh_shmat(int id, const void* address, int flags, void** vehva);

/* Detaches it. 0, else -1. */
int vh_shmdt(const void* address);

#ifdef __cplusplus
}
#endif

#endif
