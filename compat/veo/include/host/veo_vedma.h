/* Copies within a process by its DMA engine. Here the process copies, in the queue of the main
 * context, and addresses for copies are plain addresses. A negative errno is returned for what
 * cannot be asked for: -EINVAL, -EFAULT for no handle, -EBUSY when the process does not answer. */
#ifndef FARCALL_COMPAT_VEO_VEO_VEDMA_H
#define FARCALL_COMPAT_VEO_VEO_VEDMA_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ve_offload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ve_dma_handle {
  int status;
  int index;
} ve_dma_handle_t;

/* Copies between two addresses of the process. 0, else a negative errno; how the copy ended says
 * veo_dma_poll. Blocks: the copy is done afterwards. */
int veo_dma_post(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size,
                 ve_dma_handle_t* dhandle);

/* 0: done. 0x4000: an address was not memory. Else a negative errno. */
int veo_dma_poll(struct veo_proc_handle* proc, ve_dma_handle_t* dhandle);

/* Both in one. */
int veo_dma_post_wait(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size);

/* The address by which copies know memory that veo_alloc_hmem gave; ~0 and errno when it fails. */
uint64_t veo_register_mem_to_dmaatb(void* vemva, size_t size);

/* Ends that. 0, else -1 and errno. */
int veo_unregister_mem_from_dmaatb(struct veo_proc_handle* proc, uint64_t vehva);

/* Waits for writes of other devices to arrive, of which there are none. */
void veo_access_pcircvsyc_register(struct veo_proc_handle* proc);

#ifdef __cplusplus
}
#endif

#endif
