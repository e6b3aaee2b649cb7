/* System V shared memory of this machine in a process of kernels. All block, and fail with errno:
 * ENOTSUP where it is not supported, EBUSY when the process does not answer, and those of
 * shmget(2), shmat(2) and shmdt(2). */
#ifndef FARCALL_COMPAT_VEO_VEO_VHVESHM_H
#define FARCALL_COMPAT_VEO_VEO_VHVESHM_H

#include <sys/ipc.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The segment's number, as the process finds it; -1 when it fails. */
int veo_shmget(struct veo_proc_handle* proc, key_t key, size_t size, int shmflag);

/* Attaches it; its address in the process, and in *vehva the one for copies. (void *)-1 when it
 * fails. */
void* veo_shmat(struct veo_proc_handle* proc, int shmid, const void* shmaddr, int shmflag,
                void** vehva);

/* Detaches it. 0, else -1. */
int veo_shmdt(struct veo_proc_handle* proc, const void* shmaddr);

#ifdef __cplusplus
}
#endif

#endif
