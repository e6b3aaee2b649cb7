#ifndef FARCALL_AM2_SPMD_H
#define FARCALL_AM2_SPMD_H

/* Jobs whose processes all run the program, as far as amudp_spmd.h and ammpi_spmd.h have it in
   common. */

#include "farcall_am2.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective. Each process gets a bundle (AM_SEQ) and an endpoint whose table has process i at
   index i; it registers its handlers, and calls the barrier before it sends. */
AM2_API int AMX_SPMDBarrier(void);
/* Collective: `len` bytes of each process, in their order, in `dest` of all. */
AM2_API int AMX_SPMDAllGather(void* source, void* dest, size_t len);
/* Collective: `len` bytes of process `root` in `buf` of all. */
AM2_API int AMX_SPMDBroadcast(void* buf, size_t len, int root);
/* Ends the job, all processes with this code; one that calls it is enough. Does not return. */
AM2_API int AMX_SPMDExit(int exitcode);
AM2_API int AMX_SPMDNumProcs(void);
AM2_API int AMX_SPMDMyProc(void);
AM2_API int AMX_SPMDSetExitCallback(void (*function)(int));
/* Of the process that started the job, or of this one. */
AM2_API const char* AMX_SPMDgetenvMaster(const char* key);
/* What ends the process at last; _exit unless the program puts something else there. */
AM2_API extern void (*AMX_SPMDkillmyprocess)(int);

/* Makes the job of this process: of those that a launcher has started, else of this one alone. */
AM2_API int AM2_SPMDStartup(int* argc, char*** argv, int networkdepth, uint64_t* networkpid,
                            eb_t* eb, ep_t* ep);
AM2_API int AM2_SPMDIsWorker(char** argv);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
