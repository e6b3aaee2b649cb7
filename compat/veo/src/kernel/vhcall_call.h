/* SPDX-License-Identifier: Apache-2.0 */

/* Calls host functions with copies of the memory to which the kernel's pointers refer. Any process
 * that is a host of VHcall can use this code. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_CALL_H
#define FARCALL_COMPAT_VEO_VHCALL_CALL_H

#include <libvepseudo.h>
#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Hide these symbols, because each library or program has a separate copy of this code. */
#pragma GCC visibility push(hidden)

/* Functions that read and write the memory of the kernel. They return 0, or a negative errno.
 * `size` is greater than 0. */
struct vhcall_memory {
  void* context;
  int (*read)(void* context, void* to, uint64_t from, size_t size);
  int (*write)(void* context, uint64_t to, const void* from, size_t size);
};

/* Calls the function at the address `function` as f(handle, in, in_size, out, out_size). Returns
 * the function's result, or a negative errno. */
int64_t vhcall_call(uint64_t function, veos_handle* handle, const struct vhcall_memory* memory,
                    uint64_t in, size_t in_size, uint64_t out, size_t out_size);

/* Calls a function that returns uint64_t by the calling convention of C. Returns 0 or a negative
 * errno: -EINVAL for invalid arguments, -ENOSYS on processors other than x86-64 and aarch64. */
int vhcall_call_with_args(uint64_t function, veos_handle* handle,
                          const struct vhcall_memory* memory, const vhcall_data* args, size_t count,
                          uint64_t* result);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
