/* What code that is compiled with -finstrument-functions calls. The C library has functions of
 * these names, too, which do nothing, and a library that is loaded finds them first. So kernel
 * libraries have hidden ones of their own (FTRACE_HIDDEN), and programs have these, which are found
 * before all others. */
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
