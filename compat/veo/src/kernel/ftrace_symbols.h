/* SPDX-License-Identifier: Apache-2.0 */

/* Finds names of functions, also of functions that dladdr() does not find. */
#ifndef FARCALL_COMPAT_VEO_FTRACE_SYMBOLS_H
#define FARCALL_COMPAT_VEO_FTRACE_SYMBOLS_H

#include <stdint.h>

/* Returns the name of a function, which the caller frees. If the function has no name, returns its
 * file and offset as text. Returns NULL if there is no memory. */
__attribute__((visibility("hidden"))) char* farcall_veo_name_of(uintptr_t function);

#endif
