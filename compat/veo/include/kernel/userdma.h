/* SPDX-License-Identifier: Apache-2.0 */

/* Maps descriptors of the card's DMA engine into a kernel's memory. Both functions need NEC's card,
 * so that they fail with ENOTSUP; use the copies of vedma.h instead. Link with -lsysve. */
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
