/* Memory of one process of kernels, shared with others. Not supported here: all fail with ENOTSUP.
 * `mode` is of the bits in veo_veshm_defs.h. */
#ifndef FARCALL_COMPAT_VEO_VEO_VESHM_H
#define FARCALL_COMPAT_VEO_VEO_VESHM_H

#include "ve_offload.h"
#include "veo_veshm_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C and C++ have not had long long from the beginning, and some programs are that old. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif

/* Lets other processes attach memory that veo_alloc_hmem gave. 0, else -1. */
int veo_shared_mem_open(void* vemva, size_t size, int syncnum, long long mode);

/* Ends that. 0, else -1. */
int veo_shared_mem_close(void* vemva, size_t size, int syncnum, long long mode);

/* Its address in `proc`, of memory that the process `pid` has opened; (void *)-1 when it fails. */
void* veo_shared_mem_attach(struct veo_proc_handle* proc, pid_t pid, void* vemva, size_t size,
                            int syncnum, long long mode);

/* Ends that. 0, else -1. */
int veo_shared_mem_detach(struct veo_proc_handle* proc, void* addr, long long mode);

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif
