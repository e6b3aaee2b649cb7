/* SPDX-License-Identifier: Apache-2.0 */

/* A job whose processes disagree on a collective, which ends all of them. The first argument
   selects the disagreement. */
#include <ammpi.h>
#include <ammpi_spmd.h>

#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  uint64_t number;
  eb_t eb;
  ep_t ep;
  int me, values[2], *gathered;
  const char* on;
  if (argc < 2 || AMX_SPMDStartup(&argc, &argv, 0, &number, &eb, &ep) != AM_OK) return 8;
  on = argv[1];
  me = AMX_SPMDMyProc();
  values[0] = values[1] = me;
  gathered = (int*)malloc(sizeof values * (size_t)AMX_SPMDNumProcs());
  if (AMX_SPMDBarrier() != AM_OK) return 8;
  if (strcmp(on, "barrier") == 0) {
    if (me == 1) (void)AMX_SPMDAllGather(values, gathered, sizeof values);
    if (me != 1) (void)AMX_SPMDBarrier();
  } else if (strcmp(on, "broadcast") == 0) {
    if (me == 0) (void)AMX_SPMDAllGather(values, gathered, sizeof values);
    if (me != 0) (void)AMX_SPMDBroadcast(values, sizeof values, 0);
  } else if (strcmp(on, "root") == 0) {
    (void)AMX_SPMDBroadcast(values, sizeof values, me == 0 ? 1 : 2);
  } else if (strcmp(on, "length") == 0) {
    (void)AMX_SPMDBroadcast(values, me == 0 ? 8 : 4, 0);
  } else {
    (void)AMX_SPMDAllGather(values, gathered, me == 1 ? 8 : 4);
  }
  /* Waits for the others to end, too. */
  (void)AMX_SPMDBarrier();
  free(gathered);
  AMX_SPMDExit(0);
  return 0;
}
