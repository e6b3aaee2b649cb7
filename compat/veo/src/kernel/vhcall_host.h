/* The host's side of VHcall, as kernels' side sees it: a table of functions. libsysve has one for
 * the process that runs the kernel. The program that runs kernels may put another in its place: it
 * exports
 *
 *     const struct vhcall_host* farcall_vhcall_host(void);
 *
 * which is asked at each call, and returns NULL for the default. Its functions may be called from
 * several threads. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_HOST_H
#define FARCALL_COMPAT_VEO_VHCALL_HOST_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are to memory of the kernel's process, and checked only so far that a buffer with a
 * size has an address. Errors are minus an errno. */
struct vhcall_host {
  /* A handle, not 0. `path` is not NULL. */
  int64_t (*install)(const char* path);

  /* What stands for the function, neither 0 nor negative; -EINVAL when there is none. */
  int64_t (*find)(vhcall_handle library, const char* symbol);

  /* What the function returned; a failure to call it cannot be told from its own -errno. */
  int64_t (*invoke)(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size);

  /* 0; what the function returned goes to *result. */
  int (*invoke_with_args)(int64_t symbol, const vhcall_data* args, size_t count, uint64_t* result);

  int (*uninstall)(vhcall_handle library);
};

typedef const struct vhcall_host* farcall_vhcall_host_function(void);

/* The table for the process itself. */
__attribute__((visibility("hidden"))) extern const struct vhcall_host farcall_vhcall_local_host;

#ifdef __cplusplus
}
#endif

#endif
