/* Copies inside the process, for addresses that somebody else has given. */
#ifndef FARCALL_COMPAT_VEO_MEMORY_COPY_H
#define FARCALL_COMPAT_VEO_MEMORY_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies; tags of addresses (veo_hmem.h) are left out. 0, or -EFAULT when an address is not memory
 * that may be used so, or minus another errno; a part may have been copied. */
__attribute__((visibility("hidden"))) int farcall_veo_memory_copy(uint64_t to, uint64_t from,
                                                                  size_t size);

#ifdef __cplusplus
}
#endif

#endif
