/* Where the host functions are: calls them, with copies of what the kernel's pointers point to. For
 * any process that is a host of VHcall. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_CALL_H
#define FARCALL_COMPAT_VEO_VHCALL_CALL_H

#include <libvepseudo.h>
#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For one library or program; another may have its own. */
#pragma GCC visibility push(hidden)

/* How to reach the kernel's memory. 0, or minus an errno; `size` is never 0. */
struct vhcall_memory {
  void* context;
  int (*read)(void* context, void* to, uint64_t from, size_t size);
  int (*write)(void* context, uint64_t to, const void* from, size_t size);
};

/* `function` is an address. Calls f(handle, in, in_size, out, out_size) and returns what it
 * returned, or minus an errno. */
int64_t vhcall_call(uint64_t function, veos_handle* handle, const struct vhcall_memory* memory,
                    uint64_t in, size_t in_size, uint64_t out, size_t out_size);

/* Calls a function that returns uint64_t by the C calling convention. 0, or minus an errno: EINVAL
 * for arguments that are none, ENOSYS on other machines than x86-64 and aarch64. */
int vhcall_call_with_args(uint64_t function, veos_handle* handle,
                          const struct vhcall_memory* memory, const vhcall_data* args, size_t count,
                          uint64_t* result);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
