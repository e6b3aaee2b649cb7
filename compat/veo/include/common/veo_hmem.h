/* Addresses with a tag: bit 63 for memory of a process of kernels, bits 62 to 59 for which one. For
 * both sides: link programs with -lveo, kernels with -lveohmem. All local. */
#ifndef FARCALL_COMPAT_VEO_VEO_HMEM_H
#define FARCALL_COMPAT_VEO_VEO_HMEM_H

#ifdef __cplusplus
extern "C" {
#endif

/* 1 for an address with a tag, else 0. */
int veo_is_ve_addr(const void* addr);

/* The address without its tag; one without is returned as it is. */
void* veo_get_hmem_addr(void* addr);

/* How many processes a tag can tell apart: 16. */
int veo_get_max_proc_identifier(void);

/* The identifier in the tag; -1 when there is none. */
int veo_get_proc_identifier_from_hmem(const void* addr);

/* A system call: its result, or minus the error's number. */
signed long syscall_wrapper(int number, signed long a0, signed long a1, signed long a2,
                            signed long a3, signed long a4, signed long a5);

#ifdef __cplusplus
}
#endif

#endif
