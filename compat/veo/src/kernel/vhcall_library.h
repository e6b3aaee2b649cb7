/* Libraries of host functions, in whichever process is the host. Errors are minus an errno. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_LIBRARY_H
#define FARCALL_COMPAT_VEO_VHCALL_LIBRARY_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* A handle, not 0. */
int64_t vhcall_library_install(const char* path);

/* The address of a function. */
int64_t vhcall_library_find(vhcall_handle library, const char* symbol);

int vhcall_library_uninstall(vhcall_handle library);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
