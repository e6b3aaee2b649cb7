/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AM2_H
#define AM2_H

/* The interface of Active Messages 2.0, implemented by farcall, for new programs in C and C++.
   Existing programs include amudp.h or ammpi.h instead, with amudp_spmd.h or ammpi_spmd.h. A source
   file includes only one of am2.h, amudp.h and ammpi.h.

   Handlers of messages run only inside library calls of a thread that polls. The mode of a bundle
   says which threads may use the bundle: one thread at a time with AM_SEQ, any threads at once with
   AM_PAR. A page in docs/guide describes this interface. */

#if defined(AMUDP_H) || defined(AMMPI_H)
#error "a source file includes one of am2.h, amudp.h and ammpi.h"
#endif

#include "farcall_am2.h"

/* Name of an endpoint in the job. Names may be copied, compared with AMX_enEqual, and sent as
   bytes. */
typedef struct {
  int node;     /* number of the process in the job */
  int endpoint; /* number of the endpoint in that process */
} en_t;

#include "farcall_am2_names.h"
#include "farcall_am2_spmd.h"

#define AMX_SPMDStartup AM2_SPMDStartup
#define AMX_SPMDIsWorker AM2_SPMDIsWorker

#ifdef AM2_DIALECT_1995
#include "farcall_am2_1995.h"
#endif

#endif
