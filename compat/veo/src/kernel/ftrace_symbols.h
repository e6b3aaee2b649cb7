/* Names of functions, also of those that dladdr() does not find. */
#ifndef FARCALL_COMPAT_VEO_FTRACE_SYMBOLS_H
#define FARCALL_COMPAT_VEO_FTRACE_SYMBOLS_H

#include <stdint.h>

/* In memory of malloc; of functions without a name, the file and the place in it. NULL without
 * memory. */
__attribute__((visibility("hidden"))) char* farcall_veo_name_of(uintptr_t function);

#endif
