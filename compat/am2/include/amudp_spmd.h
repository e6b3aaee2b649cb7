#ifndef AMUDP_SPMD_H
#define AMUDP_SPMD_H

/* The header of AMUDP for starting jobs: `./program 4 L ...` starts four processes here. */

#include "amudp.h"
#include "farcall_am2_spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a job of `nproc` processes whose program is argv, with `extra_env` (NAME=value, up to a
   NULL) in their environment. Non-zero when it has. */
typedef int (*amudp_spawnfn_t)(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDLocalSpawn(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDSshSpawn(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDCustomSpawn(int nproc, int argc, char** argv, char** extra_env);

typedef struct {
  char abbrev;
  const char* desc;
  amudp_spawnfn_t fnptr;
} amudp_spawnfn_desc_t;
/* The last has abbrev 0. */
AM2_API extern amudp_spawnfn_desc_t const AMUDP_Spawnfn_Desc[];

/* In the process that the user has started: starts `nproc` more and never returns. In these:
   returns as AM2_SPMDStartup. With nproc 0, argv[1] and argv[2] say how many and how, and are taken
   out. */
AM2_API int AMUDP_SPMDStartup(int* argc, char*** argv, int nproc, int networkdepth,
                              amudp_spawnfn_t spawnfn, uint64_t* networkpid, eb_t* eb, ep_t* ep);
/* This process is one of those. */
AM2_API int AMUDP_SPMDIsWorker(char** argv);
/* The number that this process is to have; before the startup, by all or none. */
AM2_API void AMUDP_SPMDSetProc(int rank);
/* A program may have its environment variables begin with another word than AMUDP. Returns it. */
AM2_API const char* AMUDP_check_env_prefix(const char* prefix);

#ifdef __cplusplus
} /* extern "C" */
#endif

#define AMX_SPMDStartup(argc, argv, networkdepth, networkpid, eb, ep)                              \
  AMUDP_SPMDStartup((argc), (argv), 0, (networkdepth), NULL, (networkpid), (eb), (ep))
#define AMX_SPMDIsWorker AMUDP_SPMDIsWorker

#define AMUDP_SPMDBarrier AMX_SPMDBarrier
#define AMUDP_SPMDExit AMX_SPMDExit
#define AMUDP_SPMDNumProcs AMX_SPMDNumProcs
#define AMUDP_SPMDMyProc AMX_SPMDMyProc
#define AMUDP_SPMDAllGather AMX_SPMDAllGather
#define AMUDP_SPMDSetExitCallback AMX_SPMDSetExitCallback
#define AMUDP_SPMDkillmyprocess AMX_SPMDkillmyprocess
#define AMUDP_SPMDgetenvMaster AMX_SPMDgetenvMaster

#endif
