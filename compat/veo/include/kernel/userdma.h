/* Descriptors of the card's DMA engine in a kernel's own memory. There are none here: both fail
 * with ENOTSUP. vedma.h copies. -lsysve. */
#ifndef FARCALL_COMPAT_VEO_USERDMA_H
#define FARCALL_COMPAT_VEO_USERDMA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int ve_map_dmades(uint64_t* descriptors, uint64_t* control);
int ve_unmap_dmades(uint64_t address);

#ifdef __cplusplus
}
#endif

#endif
