/* Memory of GPUs as the DMA engine of a Vector Engine reaches it, and memory of a process for its
 * DMA without any alignment. The former needs the card: those four fail with -ENOTSUP, and
 * farcall_veo_last_error() has the reason. */
#ifndef FARCALL_COMPAT_VEO_VEO_DEV_MEM_H
#define FARCALL_COMPAT_VEO_VEO_DEV_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number for memory of a GPU, and in *registered how much of it that is. */
int veo_register_gpu_mem(struct veo_proc_handle* proc, uint64_t address, uint64_t size,
                         uint64_t* registered);
int veo_unregister_gpu_mem(struct veo_proc_handle* proc, int dev_mem_id);

/* The address by which copies of the process know that memory. */
int64_t veo_attach_dev_mem(struct veo_proc_handle* proc, int dev_mem_id);
int veo_detach_dev_mem(struct veo_proc_handle* proc, const uint64_t vehva);

/* As veo_register_mem_to_dmaatb and veo_unregister_mem_from_dmaatb. */
uint64_t veo_register_mem_to_dmaatb_unalign(void* vemva, size_t size);
int veo_unregister_mem_from_dmaatb_unalign(struct veo_proc_handle* proc, uint64_t vehva);

#ifdef __cplusplus
}
#endif

#endif
