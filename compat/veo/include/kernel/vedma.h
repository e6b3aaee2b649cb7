/* SPDX-License-Identifier: Apache-2.0 */

/* Copies by DMA, for kernels. In this implementation, a copy has ended when ve_dma_post() returns.
 * Addresses for DMA are plain addresses, and any alignment and size is valid. Link with -lveio. */
#ifndef FARCALL_COMPAT_VEO_VEDMA_H
#define FARCALL_COMPAT_VEO_VEDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handle of a copy that ve_dma_post() has made. Programs must not use the members. */
typedef struct ve_dma_handle {
  int status;
  int index;
} ve_dma_handle_t;

int ve_dma_init(void);

/* Copies `size` bytes from `src` to `dst`. Returns 0, or -EINVAL if the size is negative or
 * `handle` is NULL. ve_dma_poll() returns the result of the copy. */
int ve_dma_post(uint64_t dst, uint64_t src, int size, ve_dma_handle_t* handle);

/* Returns the result of a copy: 0 if it was done, 0x4000 if an address was invalid. */
int ve_dma_poll(ve_dma_handle_t* handle);

/* Copies like ve_dma_post(), and returns the result of the copy like ve_dma_poll(). */
int ve_dma_post_wait(uint64_t dst, uint64_t src, int size);

/* Sets *regs to 0, because there is no control register here. */
void ve_dma_read_ctrl_reg(uint64_t* regs);

/* Registers memory of this process for DMA. Returns the address that ve_dma_post() takes for this
 * memory, which is `memory` itself. Returns (uint64_t)-1 and sets errno to EINVAL if `memory` is
 * NULL or `size` is 0. */
uint64_t ve_register_mem_to_dmaatb(void* memory, size_t size);
int ve_unregister_mem_from_dmaatb(uint64_t vehva);

#ifdef __cplusplus
}
#endif

#endif
