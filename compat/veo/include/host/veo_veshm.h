/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that a process shares with other processes that run kernels. The functions need NEC's
 * card, so that all of them fail with ENOTSUP here. `mode` consists of bits from veo_veshm_defs.h.
 */
#ifndef FARCALL_COMPAT_VEO_VEO_VESHM_H
#define FARCALL_COMPAT_VEO_VEO_VESHM_H

#include "ve_offload.h"
#include "veo_veshm_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Disable -Wlong-long, because -Wpedantic warns of long long in old standards of C and C++. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif

/* Allows other processes to attach memory that veo_alloc_hmem() has allocated. Returns 0, or -1 if
 * it fails. */
int veo_shared_mem_open(void* vemva, size_t size, int syncnum, long long mode);

/* Ends the sharing of memory that veo_shared_mem_open() has begun. Returns 0, or -1 if it fails. */
int veo_shared_mem_close(void* vemva, size_t size, int syncnum, long long mode);

/* Attaches memory that process `pid` has shared by veo_shared_mem_open() to the process `proc`.
 * Returns the memory's address in `proc`, or (void *)-1 if it fails. */
void* veo_shared_mem_attach(struct veo_proc_handle* proc, pid_t pid, void* vemva, size_t size,
                            int syncnum, long long mode);

/* Detaches memory that veo_shared_mem_attach() has attached. Returns 0, or -1 if it fails. */
int veo_shared_mem_detach(struct veo_proc_handle* proc, void* addr, long long mode);

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif
