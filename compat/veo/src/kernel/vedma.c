/* SPDX-License-Identifier: Apache-2.0 */
#include <vedma.h>

#include <errno.h>

#include "memory_copy.h"

/* Error code that NEC's hardware reports if a page is missing. */
#define MISSING_PAGE 0x4000

int ve_dma_init(void) { return 0; }

int ve_dma_post(uint64_t dst, uint64_t src, int size, ve_dma_handle_t* handle) {
  if (size < 0 || handle == NULL) {
    return -EINVAL;
  }
  handle->index = 0;
  handle->status = ve_dma_post_wait(dst, src, size);
  return 0;
}

int ve_dma_poll(ve_dma_handle_t* handle) { return handle == NULL ? -EINVAL : handle->status; }

int ve_dma_post_wait(uint64_t dst, uint64_t src, int size) {
  if (size < 0) {
    return -EINVAL;
  }
  return farcall_veo_memory_copy(dst, src, (size_t)size) == 0 ? 0 : MISSING_PAGE;
}

void ve_dma_read_ctrl_reg(uint64_t* regs) {
  if (regs != NULL) {
    *regs = 0;
  }
}

uint64_t ve_register_mem_to_dmaatb(void* memory, size_t size) {
  if (memory == NULL || size == 0) {
    errno = EINVAL;
    return (uint64_t)-1;
  }
  return (uintptr_t)memory;
}

int ve_unregister_mem_from_dmaatb(uint64_t vehva) {
  if (vehva == 0 || vehva == (uint64_t)-1) {
    errno = EINVAL;
    return -1;
  }
  return 0;
}
