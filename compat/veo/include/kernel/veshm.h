/* Memory of one process of kernels, shared with others, for kernels. It needs the card: all fail
 * with ENOTSUP. Segments of the machine (vhshm.h) can be shared. `mode` is of the bits in
 * veo_veshm_defs.h. -lsysve. */
#ifndef FARCALL_COMPAT_VEO_VESHM_H
#define FARCALL_COMPAT_VEO_VESHM_H

#include <stddef.h>
#include <sys/types.h>

#include "veo_veshm_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C and C++ have not had long long from the beginning, and some programs are that old. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif

/* 0, else -1. */
int ve_shared_mem_open(void* memory, size_t size, int syncnum, long long mode);
int ve_shared_mem_close(void* memory, size_t size, int syncnum, long long mode);

/* Its address here, else (void *)-1. */
void* ve_shared_mem_attach(pid_t pid, void* memory, size_t size, int syncnum, long long mode);
int ve_shared_mem_detach(void* address, long long mode);

/* The size of the card's pages there, else -1. */
int ve_get_pgmode(long long mode, int pid, void* address);

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif
