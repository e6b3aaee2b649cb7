/* Counts calls and time of functions that are compiled with -finstrument-functions. The table goes
 * to a file when the process ends by exit() or returns from main():
 *
 *   ftrace.out                       without VE_NODE_NUMBER in the environment
 *   ftrace.out.veo.<node>.<process>  with it, as programs that run kernels have it
 *
 * VE_FTRACE_OUT_NAME replaces `ftrace.out`; .<MPIUNIVERSE>.<MPIRANK> comes after it when both are
 * in the environment. */
#ifndef FARCALL_COMPAT_VEO_FTRACE_RUNTIME_H
#define FARCALL_COMPAT_VEO_FTRACE_RUNTIME_H

#ifdef __cplusplus
extern "C" {
#endif

/* What the hooks of the compiler call: `function` begins, or ends, in this thread. */
void farcall_veo_ftrace_enter(void* function);
void farcall_veo_ftrace_exit(void* function);

/* Writes the table now, over that of an earlier call; for processes that end otherwise. Nothing is
 * written when nothing was counted. 0, else -1 with errno. */
int farcall_veo_ftrace_write(void);

#ifdef __cplusplus
}
#endif

#endif
