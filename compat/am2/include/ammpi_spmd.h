/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMMPI_SPMD_H
#define AMMPI_SPMD_H

/* Header for jobs of programs that were written for AMMPI. A job of 4 processes is started by the
   command `farcall run --spmd -n 4 ./program`. A process that is started alone is a job of one
   process. */

#include "ammpi.h"
#include "farcall_am2_spmd.h"

#define AMX_SPMDStartup AM2_SPMDStartup
#define AMX_SPMDIsWorker AM2_SPMDIsWorker

#define AMMPI_SPMDStartup AM2_SPMDStartup
#define AMMPI_SPMDIsWorker AM2_SPMDIsWorker
#define AMMPI_SPMDBarrier AMX_SPMDBarrier
#define AMMPI_SPMDExit AMX_SPMDExit
#define AMMPI_SPMDNumProcs AMX_SPMDNumProcs
#define AMMPI_SPMDMyProc AMX_SPMDMyProc
#define AMMPI_SPMDAllGather AMX_SPMDAllGather
#define AMMPI_SPMDBroadcast AMX_SPMDBroadcast
#define AMMPI_SPMDSetExitCallback AMX_SPMDSetExitCallback
#define AMMPI_SPMDkillmyprocess AMX_SPMDkillmyprocess
#define AMMPI_SPMDgetenvMaster AMX_SPMDgetenvMaster

#ifdef __cplusplus
extern "C" {
#endif
/* Call this function before the startup. A non-zero `threads` says that several threads will use
   the library at once, which is always allowed. If `provided` is not NULL, the MPI thread level is
   stored in *provided. Returns 1. */
AM2_API int AMMPI_SPMDSetThreadMode(int threads, const char** provided, int* argc, char*** argv);
#ifdef __cplusplus
}
#endif

#endif
