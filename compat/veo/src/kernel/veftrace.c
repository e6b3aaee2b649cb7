/* SPDX-License-Identifier: Apache-2.0 */

/* The libraries libveftrace, libveftrace_t and libveftrace_p, which old Makefiles link. The
 * compiler wrappers link the code for -ftrace without them, so that these libraries only contain
 * functions that ignore regions. */
#include <ftrace.h>

__attribute__((weak)) int ftrace_region_begin(const char* name) { return name == 0 ? -1 : 0; }
__attribute__((weak)) int ftrace_region_end(const char* name) { return name == 0 ? -1 : 0; }
