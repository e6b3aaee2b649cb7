/* SPDX-License-Identifier: Apache-2.0 */

/* System V shared memory of the machine on which a process runs its kernels. The functions block
 * until the earlier requests of the main context have ended. If a function fails, errno is EBUSY if
 * the process does not reply, otherwise an error of shmget(2), shmat(2) or shmdt(2). */
#ifndef FARCALL_COMPAT_VEO_VEO_VHVESHM_H
#define FARCALL_COMPAT_VEO_VEO_VHVESHM_H

#include <sys/ipc.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the identifier of an existing segment, or -1 if there is none. `shmflag` must be 0 or
 * SHM_HUGETLB. SHM_HUGETLB has no effect, because it only matters when a segment is created. */
int veo_shmget(struct veo_proc_handle* proc, key_t key, size_t size, int shmflag);

/* Attaches a segment to the process. Returns the segment's address in the process, or (void *)-1 if
 * it fails. Stores the address for DMA copies in *vehva, which is the same address. `shmaddr` must
 * be NULL, and `shmflag` 0 or SHM_RDONLY. */
void* veo_shmat(struct veo_proc_handle* proc, int shmid, const void* shmaddr, int shmflag,
                void** vehva);

/* Detaches a segment from the process. Returns 0, or -1 if it fails. */
int veo_shmdt(struct veo_proc_handle* proc, const void* shmaddr);

#ifdef __cplusplus
}
#endif

#endif
