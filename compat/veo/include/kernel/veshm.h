/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that processes which run kernels share, for use by kernels. The functions need NEC's card,
 * so that all of them fail with ENOTSUP; the System V segments of vhshm.h can be shared instead.
 * `mode` consists of bits from veo_veshm_defs.h. Link with -lsysve. */
#ifndef FARCALL_COMPAT_VEO_VESHM_H
#define FARCALL_COMPAT_VEO_VESHM_H

#include <stddef.h>
#include <sys/types.h>

#include "veo_veshm_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Disable -Wlong-long, because -Wpedantic warns of long long in old standards of C and C++. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif

/* Begin and end sharing this process's memory. Return 0, or -1 if they fail. */
int ve_shared_mem_open(void* memory, size_t size, int syncnum, long long mode);
int ve_shared_mem_close(void* memory, size_t size, int syncnum, long long mode);

/* Attaches memory of process `pid`. Returns its address in this process, or (void *)-1 if it fails.
 */
void* ve_shared_mem_attach(pid_t pid, void* memory, size_t size, int syncnum, long long mode);
int ve_shared_mem_detach(void* address, long long mode);

/* Returns the size of the card's pages at `address`, or -1 if it fails. */
int ve_get_pgmode(long long mode, int pid, void* address);

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif
