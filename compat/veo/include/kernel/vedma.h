/* Copies by DMA, for kernels. Here a copy is done when ve_dma_post returns, addresses for DMA are
 * plain addresses, and any alignment and size are good. -lveio. */
#ifndef FARCALL_COMPAT_VEO_VEDMA_H
#define FARCALL_COMPAT_VEO_VEDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A copy that was posted; what is in it is not for programs. */
typedef struct ve_dma_handle {
  int status;
  int index;
} ve_dma_handle_t;

int ve_dma_init(void);

/* Copies. 0, or -EINVAL for a negative size; how the copy ended says ve_dma_poll. */
int ve_dma_post(uint64_t dst, uint64_t src, int size, ve_dma_handle_t* handle);

/* 0: done. 0x4000: an address is not memory. */
int ve_dma_poll(ve_dma_handle_t* handle);

/* Both in one. */
int ve_dma_post_wait(uint64_t dst, uint64_t src, int size);

/* There is no register: *regs becomes 0. */
void ve_dma_read_ctrl_reg(uint64_t* regs);

/* The address for DMA of memory of this process; (uint64_t)-1 and EINVAL for none. */
uint64_t ve_register_mem_to_dmaatb(void* memory, size_t size);
int ve_unregister_mem_from_dmaatb(uint64_t vehva);

#ifdef __cplusplus
}
#endif

#endif
