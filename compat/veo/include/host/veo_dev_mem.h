/* SPDX-License-Identifier: Apache-2.0 */

/* Registers memory of GPUs for the DMA engine of a Vector Engine, and memory of a process without
 * regard to alignment. The four functions for memory of GPUs need NEC's card, so that they fail
 * with -ENOTSUP here; farcall_veo_last_error() returns the reason. */
#ifndef FARCALL_COMPAT_VEO_VEO_DEV_MEM_H
#define FARCALL_COMPAT_VEO_VEO_DEV_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers memory of a GPU and returns its number. Stores the size that was registered in
 * *registered. */
int veo_register_gpu_mem(struct veo_proc_handle* proc, uint64_t address, uint64_t size,
                         uint64_t* registered);
int veo_unregister_gpu_mem(struct veo_proc_handle* proc, int dev_mem_id);

/* Attaches GPU memory that veo_register_gpu_mem() has registered. Returns the address by which the
 * process names this memory in copies. */
int64_t veo_attach_dev_mem(struct veo_proc_handle* proc, int dev_mem_id);
int veo_detach_dev_mem(struct veo_proc_handle* proc, const uint64_t vehva);

/* Work like veo_register_mem_to_dmaatb() and veo_unregister_mem_from_dmaatb(). The memory need not
 * be aligned. */
uint64_t veo_register_mem_to_dmaatb_unalign(void* vemva, size_t size);
int veo_unregister_mem_from_dmaatb_unalign(struct veo_proc_handle* proc, uint64_t vehva);

#ifdef __cplusplus
}
#endif

#endif
