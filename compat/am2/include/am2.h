#ifndef AM2_H
#define AM2_H

/* Active Messages 2.0, on farcall, for new programs in C and C++. Programs that exist include
   amudp.h or ammpi.h, with amudp_spmd.h or ammpi_spmd.h; a source file includes one of the three.

   Handlers run in the calls of the thread that polls, nowhere else. Which threads may use a bundle
   says its mode: AM_SEQ, one at a time; AM_PAR, any. docs/guide has a page on all of it. */

#if defined(AMUDP_H) || defined(AMMPI_H)
#error "a source file includes one of am2.h, amudp.h and ammpi.h"
#endif

#include "farcall_am2.h"

/* Where an endpoint is. To be copied, compared with AMX_enEqual, and sent to others. */
typedef struct {
  int node;     /* process of the job */
  int endpoint; /* of the process */
} en_t;

#include "farcall_am2_names.h"
#include "farcall_am2_spmd.h"

#define AMX_SPMDStartup AM2_SPMDStartup
#define AMX_SPMDIsWorker AM2_SPMDIsWorker

#ifdef AM2_DIALECT_1995
#include "farcall_am2_1995.h"
#endif

#endif
