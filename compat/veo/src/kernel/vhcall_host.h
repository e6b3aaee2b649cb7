/* SPDX-License-Identifier: Apache-2.0 */

/* Interface between kernels that make VHcalls and the host that executes them: a table of
 * functions. libsysve contains a table for the case that the kernel's own process is the host. The
 * program that runs kernels can replace the table if it exports this function:
 *
 *     const struct vhcall_host* farcall_vhcall_host(void);
 *
 * The function is called for each VHcall. It returns NULL to select the table of libsysve. The
 * functions in the table must be thread-safe. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_HOST_H
#define FARCALL_COMPAT_VEO_VHCALL_HOST_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Table of the functions of a VHcall host. Pointers refer to memory of the kernel's process. The
 * caller has only checked that buffers of non-zero size are not NULL. Functions return a negative
 * errno if they fail. */
struct vhcall_host {
  /* Loads a library and returns a handle, which is not 0. `path` is not NULL. */
  int64_t (*install)(const char* path);

  /* Returns a positive number that stands for the function, or -EINVAL if there is none. */
  int64_t (*find)(vhcall_handle library, const char* symbol);

  /* Returns the function's result, or a negative errno if the function cannot be called. The caller
   * cannot tell such a failure from a negative errno that is the function's own result. */
  int64_t (*invoke)(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size);

  /* Calls a host function, stores its result in *result, and returns 0. */
  int (*invoke_with_args)(int64_t symbol, const vhcall_data* args, size_t count, uint64_t* result);

  int (*uninstall)(vhcall_handle library);
};

typedef const struct vhcall_host* farcall_vhcall_host_function(void);

/* Table of functions for the case that the kernel's own process is the host. */
__attribute__((visibility("hidden"))) extern const struct vhcall_host farcall_vhcall_local_host;

#ifdef __cplusplus
}
#endif

#endif
