/* Regions of a kernel that get a line of their own in the table that -ftrace makes (-D_FTRACE is
 * set then). Regions have to be nested. Without -ftrace, -lveftrace has functions that do nothing.
 * 0, else -1. */
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
