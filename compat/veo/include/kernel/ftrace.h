/* SPDX-License-Identifier: Apache-2.0 */

/* Begin and end a region of code. Code compiled with -ftrace writes a table of times when its
 * process ends, and each region gets its own line in this table. Regions must nest. Code compiled
 * with -ftrace has the macro _FTRACE. Without -ftrace, link with -lveftrace, whose functions do
 * nothing. Both functions return 0, or -1 if they fail. */
#ifndef FARCALL_COMPAT_VEO_FTRACE_H
#define FARCALL_COMPAT_VEO_FTRACE_H

#ifdef __cplusplus
extern "C" {
#endif

int ftrace_region_begin(const char* name);
int ftrace_region_end(const char* name);

#ifdef __cplusplus
}
#endif

#endif
