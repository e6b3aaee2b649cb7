/* SPDX-License-Identifier: Apache-2.0 */

/* Copies within a process by the DMA engine of NEC's card. In this implementation the process
 * itself copies, in the order of the main context's requests, and addresses for DMA are plain
 * addresses. Invalid calls return a negative errno: -EINVAL for an invalid argument, -EFAULT if a
 * handle is NULL, -EBUSY if the process does not reply. */
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

/* Copies `size` bytes between two addresses of the process and waits until the copy has ended.
 * Returns 0, or a negative errno. veo_dma_poll() returns the result of the copy. */
int veo_dma_post(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size,
                 ve_dma_handle_t* dhandle);

/* Returns the result of a copy: 0 if it was done, 0x4000 if an address was invalid, or a negative
 * errno. */
int veo_dma_poll(struct veo_proc_handle* proc, ve_dma_handle_t* dhandle);

/* Copies like veo_dma_post(), and returns the result of the copy like veo_dma_poll(). */
int veo_dma_post_wait(struct veo_proc_handle* proc, uint64_t dst, uint64_t src, int size);

/* Registers memory of veo_alloc_hmem() for DMA. Returns the address that veo_dma_post() takes for
 * this memory, or ~0 with errno if it fails. */
uint64_t veo_register_mem_to_dmaatb(void* vemva, size_t size);

/* Ends a registration of memory for DMA. Returns 0, or -1 and sets errno. */
int veo_unregister_mem_from_dmaatb(struct veo_proc_handle* proc, uint64_t vehva);

/* Does nothing in this implementation. On NEC's card, this function waits until other devices have
 * completed their writes to the process's memory. */
void veo_access_pcircvsyc_register(struct veo_proc_handle* proc);

#ifdef __cplusplus
}
#endif

#endif
