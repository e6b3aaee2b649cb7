/* What a kernel can ask of its machine. 0, or what is said, or -1 and errno: ENOTSUP for what only
 * the card has. -lsysve. */
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

/* The NUMA node that the calling thread runs on. */
int ve_get_numa_node(unsigned* node);

/* A text about the node, with a zero behind it, and its length: "num_of_core", the processors that
 * there are, or "memory_size", in GiB. ENOENT for other names, ERANGE for too little room. */
ssize_t ve_get_ve_info(char* name, char* buffer, size_t size);

/* The name of the processor. ERANGE for too little room. */
int ve_get_ve_product_name(char* buffer, size_t size);

/* 0: files are read and written as everywhere. */
int ve_is_acc_io_enabled(void);

/* ENOTSUP. */
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
