/* SPDX-License-Identifier: Apache-2.0 */

/* Information about the machine on which a kernel runs. The functions return 0 or the documented
 * value; if they fail, they return -1 and set errno. Functions that need NEC's card fail with
 * ENOTSUP. Link with -lsysve. */
#ifndef FARCALL_COMPAT_VEO_LIBSYSVE_H
#define FARCALL_COMPAT_VEO_LIBSYSVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the number of the NUMA node on which the calling thread runs. */
int ve_get_numa_node(unsigned* node);

/* Stores a property of the node as text and returns the text's length. The name "num_of_core" gives
 * the number of CPUs, "memory_size" the memory in GiB. Fails with ENOENT for other names, and with
 * ERANGE if the buffer is too small. */
ssize_t ve_get_ve_info(char* name, char* buffer, size_t size);

/* Stores the name of the processor. Fails with ERANGE if the buffer is too small. */
int ve_get_ve_product_name(char* buffer, size_t size);

/* Returns 0, because accelerated I/O does not exist here: kernels access files by plain system
 * calls. */
int ve_is_acc_io_enabled(void);

/* Fail with ENOTSUP. */
int ve_get_pci_sync(uint8_t syncnum, uint64_t* pcisyar, uint64_t* pcisymr);
int ve_set_user_reg(uint64_t reg, uint64_t value);
int ve_get_fixed_vehva(uint64_t region, uint64_t* vehva);
int ve_get_veos_pid(void);
int ve_get_nonswappable(uint64_t* bytes);
int ve_get_vemva_region(uint64_t* address, size_t* size, int64_t* count);

#ifdef __cplusplus
}
#endif

#endif
