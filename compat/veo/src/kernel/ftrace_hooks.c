/* SPDX-License-Identifier: Apache-2.0 */

/* Hooks that code compiled with -finstrument-functions calls at the begin and end of each function.
 * The C library also defines these hooks, as empty functions, and a loaded library would find those
 * first. Each kernel library therefore has a hidden copy of the hooks (FTRACE_HIDDEN). A program
 * needs no hidden copy, because its definitions precede the C library's. */
#include "ftrace_runtime.h"

#ifdef FTRACE_HIDDEN
#define HOOK __attribute__((no_instrument_function, visibility("hidden")))
#else
#define HOOK __attribute__((no_instrument_function))
#endif

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names.
HOOK void __cyg_profile_func_enter(void* function, void* caller);
HOOK void __cyg_profile_func_exit(void* function, void* caller);

void __cyg_profile_func_enter(void* function, void* caller) {
  (void)caller;
  farcall_veo_ftrace_enter(function);
}

void __cyg_profile_func_exit(void* function, void* caller) {
  (void)caller;
  farcall_veo_ftrace_exit(function);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
