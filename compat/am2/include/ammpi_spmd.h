#ifndef AMMPI_SPMD_H
#define AMMPI_SPMD_H

/* The header of AMMPI for starting jobs: `farcall run --spmd -n 4 ./program`, or the program alone.
 */

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
/* Whether threads of the program may use the library at once: they may. `*provided` says so. */
AM2_API int AMMPI_SPMDSetThreadMode(int threads, const char** provided, int* argc, char*** argv);
#ifdef __cplusplus
}
#endif

#endif
