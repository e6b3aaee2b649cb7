/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses with a tag. Bit 63 marks an address as memory of a process that runs kernels, and bits
 * 62 to 59 hold the identifier of that process. Link programs with -lveo, kernels with -lveohmem.
 * All functions return at once. */
#ifndef FARCALL_COMPAT_VEO_VEO_HMEM_H
#define FARCALL_COMPAT_VEO_VEO_HMEM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1 if the address has a tag, otherwise 0. */
int veo_is_ve_addr(const void* addr);

/* Returns the address without its tag; an address without a tag is returned unchanged. */
void* veo_get_hmem_addr(void* addr);

/* Returns the number of processes that the tags of addresses can distinguish, which is 16. */
int veo_get_max_proc_identifier(void);

/* Returns the process identifier in the address's tag, or -1 if the address has no tag. */
int veo_get_proc_identifier_from_hmem(const void* addr);

/* Makes a system call. Returns its result, or the negative errno if it fails. */
signed long syscall_wrapper(int number, signed long a0, signed long a1, signed long a2,
                            signed long a3, signed long a4, signed long a5);

#ifdef __cplusplus
}
#endif

#endif
