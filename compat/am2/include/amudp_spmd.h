/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMUDP_SPMD_H
#define AMUDP_SPMD_H

/* Header for jobs of programs that were written for AMUDP. The command `./program 4 L ...` starts
   four processes of the program on this machine, for example. */

#include "amudp.h"
#include "farcall_am2_spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Spawn function, which starts a job of `nproc` processes with the command line `argv`. The
   environment of these processes also contains the NAME=value strings of `extra_env`, an array
   that ends with NULL. Returns non-zero if the processes were started. The first two
   functions below replace this process by the command that starts the processes. The third runs the
   user's command (AMUDP_CSPAWN_CMD), and then exits with the status of this command. So the three
   functions return only after an error. */
typedef int (*amudp_spawnfn_t)(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDLocalSpawn(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDSshSpawn(int nproc, int argc, char** argv, char** extra_env);
AM2_API int AMUDP_SPMDCustomSpawn(int nproc, int argc, char** argv, char** extra_env);

typedef struct {
  char abbrev;
  const char* desc;
  amudp_spawnfn_t fnptr;
} amudp_spawnfn_desc_t;
/* List of the spawn functions, each with the letter that selects it on the command line. An element
   with the letter 0 ends the list. */
AM2_API extern amudp_spawnfn_desc_t const AMUDP_Spawnfn_Desc[];

/* Starts a job of `nproc` processes. If nproc is 0, argv[1] is the number of processes. The spawn
   function `spawnfn` starts the processes. If spawnfn is NULL, the next word of argv is the letter
   of the spawn function. If argv has no such word, the environment variable AMUDP_SPAWNFN contains
   the letter. The call removes the words that it has read from argv.

   With AMUDP_SPMDLocalSpawn, this process becomes process 0 of the job. With any other spawn
   function, the call returns only after an error. Such a spawn function replaces this process by
   the command that starts the job, or exits. If the spawn function returns, this process exits. In
   a process that was started for the job, the call makes the process a member of the job, like
   AM2_SPMDStartup. */
AM2_API int AMUDP_SPMDStartup(int* argc, char*** argv, int nproc, int networkdepth,
                              amudp_spawnfn_t spawnfn, uint64_t* networkpid, eb_t* eb, ep_t* ep);
/* Returns 1 if this process has been started for a job, or is a member of a job already. Returns 0
   otherwise; the startup then starts a new job. */
AM2_API int AMUDP_SPMDIsWorker(char** argv);
/* Has no effect, because farcall numbers the processes. */
AM2_API void AMUDP_SPMDSetProc(int rank);
/* Sets the prefix of the names of environment variables, which is "AMUDP" by default. A NULL or
   empty `prefix` changes nothing. Returns the prefix in use. */
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
