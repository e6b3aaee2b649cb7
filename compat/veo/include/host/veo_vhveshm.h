/* System V shared memory of the machine that a process of kernels runs on. All block, in the queue
 * of the main context, and fail with errno: EBUSY when the process does not answer, and those of
 * shmget(2), shmat(2) and shmdt(2). */
#ifndef FARCALL_COMPAT_VEO_VEO_VHVESHM_H
#define FARCALL_COMPAT_VEO_VEO_VHVESHM_H

#include <sys/ipc.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of a segment that exists; -1 when there is none. The flag is 0 or SHM_HUGETLB, which
 * only says what the segment is. */
int veo_shmget(struct veo_proc_handle* proc, key_t key, size_t size, int shmflag);

/* Attaches it; its address in the process, and in *vehva the one for copies, which is the same. The
 * address asked for is NULL, and the flag 0 or SHM_RDONLY. (void *)-1 when it fails. */
void* veo_shmat(struct veo_proc_handle* proc, int shmid, const void* shmaddr, int shmflag,
                void** vehva);

/* Detaches it. 0, else -1. */
int veo_shmdt(struct veo_proc_handle* proc, const void* shmaddr);

#ifdef __cplusplus
}
#endif

#endif
