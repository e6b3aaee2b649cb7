/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FARCALL_AM2_SPMD_H
#define FARCALL_AM2_SPMD_H

/* Functions for jobs in which all processes run the same program. amudp_spmd.h and ammpi_spmd.h
   share them. */

#include "farcall_am2.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective: waits until all processes of the job have called the function. After the startup,
   each process must register its handlers and call this function before any process sends messages.
 */
AM2_API int AMX_SPMDBarrier(void);
/* Collective: gathers `len` bytes from `source` of each process. In every process, `dest` gets the
   bytes of all processes in the order of their numbers. */
AM2_API int AMX_SPMDAllGather(void* source, void* dest, size_t len);
/* Collective: copies `len` bytes from `buf` of process `root` to `buf` of all other processes. */
AM2_API int AMX_SPMDBroadcast(void* buf, size_t len, int root);
/* Ends all processes of the job with this exit code. Any one process may call it. Does not return.
 */
AM2_API int AMX_SPMDExit(int exitcode);
AM2_API int AMX_SPMDNumProcs(void);
AM2_API int AMX_SPMDMyProc(void);
AM2_API int AMX_SPMDSetExitCallback(void (*function)(int));
/* Returns an environment variable of process 0, or NULL if the variable is not set. Before the
   startup, returns the variable of this process. */
AM2_API const char* AMX_SPMDgetenvMaster(const char* key);
/* Function that AMX_SPMDExit calls at its end to end the process. It is _exit unless the program
   sets another function. */
AM2_API extern void (*AMX_SPMDkillmyprocess)(int);

/* Makes this process part of a job. The job consists of the processes that a launcher has started
   together, or of this process alone. *eb gets a bundle with the mode AM_SEQ. *ep gets an endpoint
   whose translation table has process i at index i. Both pointers may be NULL. */
AM2_API int AM2_SPMDStartup(int* argc, char*** argv, int networkdepth, uint64_t* networkpid,
                            eb_t* eb, ep_t* ep);
AM2_API int AM2_SPMDIsWorker(char** argv);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
