/* For functions that kernels call by VHcall: the memory of the kernel's process. Nothing to link:
 * the process that runs the function has these. All return 0, else -1. */
#ifndef FARCALL_COMPAT_VEO_LIBVEPSEUDO_H
#define FARCALL_COMPAT_VEO_LIBVEPSEUDO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The process whose kernel is calling. Good for the time of the call; a copy is good for longer. */
struct veos_handle_struct;
typedef struct veos_handle_struct veos_handle;

/* Copies `size` bytes at `from` to `address` there. */
int ve_send_data(veos_handle* handle, uint64_t address, size_t size, void* from);

/* Copies `size` bytes at `address` there to `to`. */
int ve_recv_data(veos_handle* handle, uint64_t address, size_t size, void* to);

/* The same, from threads that the function has started; `tid` is the thread that was called. */
int ve_send_data_tid(veos_handle* handle, uint64_t address, size_t size, void* from, pid_t tid);
int ve_recv_data_tid(veos_handle* handle, uint64_t address, size_t size, void* to, pid_t tid);

/* NULL without memory. */
veos_handle* veos_handle_copy(veos_handle* handle);
void veos_handle_free(veos_handle* handle);

/* The address for vedma.h of host memory that vh_shmat has attached; -1 when there is none. */
int64_t ve_vhva_to_vehva(veos_handle* handle, const void* address);

#ifdef __cplusplus
}
#endif

#endif
