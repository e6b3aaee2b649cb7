/* SPDX-License-Identifier: Apache-2.0 */

/* Access to the memory of the kernel's process, for host functions that kernels call by VHcall. The
 * process that runs the host function defines these functions, so link no library. Functions with
 * an integer result return 0 or the documented value, or -1 if they fail. */
#ifndef FARCALL_COMPAT_VEO_LIBVEPSEUDO_H
#define FARCALL_COMPAT_VEO_LIBVEPSEUDO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handle of the process whose kernel called the host function. The handle is valid until the host
 * function returns; a copy is valid until it is freed. */
struct veos_handle_struct;
typedef struct veos_handle_struct veos_handle;

/* Copies `size` bytes from `from` in this process to `address` in the kernel's process. */
int ve_send_data(veos_handle* handle, uint64_t address, size_t size, void* from);

/* Copies `size` bytes from `address` in the kernel's process to `to` in this process. */
int ve_recv_data(veos_handle* handle, uint64_t address, size_t size, void* to);

/* Copy like ve_send_data() and ve_recv_data(). Threads that the host function has started call
 * these two functions instead. `tid` is the thread on which the host function itself was called. */
int ve_send_data_tid(veos_handle* handle, uint64_t address, size_t size, void* from, pid_t tid);
int ve_recv_data_tid(veos_handle* handle, uint64_t address, size_t size, void* to, pid_t tid);

/* Copies a handle. Returns NULL if there is no memory. veos_handle_free() frees the copy. */
veos_handle* veos_handle_copy(veos_handle* handle);
void veos_handle_free(veos_handle* handle);

/* Returns the address that kernels pass to the functions of vedma.h to copy from or to the memory
 * at `address` in this process. Returns -1 if this process is not the process of the kernel. */
int64_t ve_vhva_to_vehva(veos_handle* handle, const void* address);

#ifdef __cplusplus
}
#endif

#endif
