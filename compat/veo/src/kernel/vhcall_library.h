/* SPDX-License-Identifier: Apache-2.0 */

/* Manages the libraries of host functions in the process that is the VHcall host. Functions return
 * a negative errno if they fail. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_LIBRARY_H
#define FARCALL_COMPAT_VEO_VHCALL_LIBRARY_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* Loads a library, and returns its handle, which is not 0. */
int64_t vhcall_library_install(const char* path);

/* Returns the address of a function in a library that vhcall_library_install() has loaded. */
int64_t vhcall_library_find(vhcall_handle library, const char* symbol);

int vhcall_library_uninstall(vhcall_handle library);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
