/* SPDX-License-Identifier: Apache-2.0 */

/* Counts the calls of functions compiled with -finstrument-functions, and their time. The table of
 * these counts is written to a file when the process calls exit() or returns from main(). The name
 * of the file is:
 *
 *   ftrace.out                       if VE_NODE_NUMBER is not set
 *   ftrace.out.veo.<node>.<process>  if VE_NODE_NUMBER is set, as in helper processes
 *
 * The value of the variable VE_FTRACE_OUT_NAME, if it is set, replaces `ftrace.out` in these names.
 * If both MPIUNIVERSE and MPIRANK are set, .<MPIUNIVERSE>.<MPIRANK> follows after that part. */
#ifndef FARCALL_COMPAT_VEO_FTRACE_RUNTIME_H
#define FARCALL_COMPAT_VEO_FTRACE_RUNTIME_H

#ifdef __cplusplus
extern "C" {
#endif

/* Record that a call of `function` begins or ends in the calling thread. The compiler's hooks call
 * these functions. */
void farcall_veo_ftrace_enter(void* function);
void farcall_veo_ftrace_exit(void* function);

/* Writes the table now and replaces an earlier file. Processes that end without exit() call this
 * function. Writes no file if nothing was counted. Returns 0, or -1 with errno. */
int farcall_veo_ftrace_write(void);

#ifdef __cplusplus
}
#endif

#endif
