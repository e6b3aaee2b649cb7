/* Copies within a process by its DMA engine. There is none here: see each function for what stands
 * in. What fails is a negative errno: -EAGAIN, -ENOTSUP, -EBUSY, -EFAULT. */
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

/* Starts a copy between two addresses of the process. 0, else a negative errno. Does not wait for
 * the copy. */
int veo_dma_post(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size,
                 ve_dma_handle_t* dhandle);

/* 0 when the copy is done, -EAGAIN when it is not, else a negative errno. Blocks for the question.
 */
int veo_dma_poll(struct veo_proc_handle* proc, ve_dma_handle_t* dhandle);

/* Copies between two addresses of the process. 0, else a negative errno. Blocks. */
int veo_dma_post_wait(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size);

/* The address by which copies know memory that veo_alloc_hmem gave; ~0 and errno when it fails.
 * Blocks. */
uint64_t veo_register_mem_to_dmaatb(void* vemva, size_t size);

/* Ends that. 0, else -1 and errno. Blocks. */
int veo_unregister_mem_from_dmaatb(struct veo_proc_handle* proc, uint64_t vehva);

/* Waits for writes of other devices to arrive, of which there are none. Blocks. */
void veo_access_pcircvsyc_register(struct veo_proc_handle* proc);

#ifdef __cplusplus
}
#endif

#endif
