/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMMPI_H
#define AMMPI_H

/* Header for programs that were written for AMMPI. Programs that include it run on farcall, without
   MPI. */

#if defined(AMUDP_H) || defined(AM2_H)
#error "a source file includes one of am2.h, amudp.h and ammpi.h"
#endif
/* The macro AMMPI tells programs that support several libraries that they use AMMPI. Such programs
   are compiled with -DAMMPI, and this header redefines the macro as 1. */
#undef AMMPI
#define AMMPI 1

#include "farcall_am2.h"

typedef struct {
  int mpirank;
  int mpitag;
} en_t;

#include "farcall_am2_names.h"

typedef amx_category_t ammpi_category_t;
typedef amx_stats_t ammpi_stats_t;
typedef amx_handler_fn_t ammpi_handler_fn_t;
#define ammpi_Short amx_Short
#define ammpi_Medium amx_Medium
#define ammpi_Long amx_Long

#define AMMPI_SetTranslationTag AMX_SetTranslationTag
#define AMMPI_GetSourceId AMX_GetSourceId
#define AMMPI_GetTokenInfo AMX_GetTokenInfo
#define AMMPI_enEqual AMX_enEqual
#define AMMPI_GetEndpointStatistics AMX_GetEndpointStatistics
#define AMMPI_ResetEndpointStatistics AMX_ResetEndpointStatistics
#define AMMPI_AggregateStatistics AMX_AggregateStatistics
#define AMMPI_DumpStatistics AMX_DumpStatistics
#define AMMPI_initial_stats AMX_initial_stats
#define AMMPI_SetHandlerCallbacks AMX_SetHandlerCallbacks
#define AMMPI_VerboseErrors AMX_VerboseErrors
#define AMMPI_SilentMode AMX_SilentMode
#define AMMPI_ProcessLabel AMX_ProcessLabel
#define AMMPI_FatalErr AMX_FatalErr
#define AMMPI_Request AMX_Request
#define AMMPI_RequestVA AMX_RequestVA
#define AMMPI_RequestI AMX_RequestI
#define AMMPI_RequestIVA AMX_RequestIVA
#define AMMPI_RequestXfer AMX_RequestXfer
#define AMMPI_RequestXferVA AMX_RequestXferVA
#define AMMPI_Reply AMX_Reply
#define AMMPI_ReplyVA AMX_ReplyVA
#define AMMPI_ReplyI AMX_ReplyI
#define AMMPI_ReplyIVA AMX_ReplyIVA
#define AMMPI_ReplyXfer AMX_ReplyXfer
#define AMMPI_ReplyXferVA AMX_ReplyXferVA

#ifdef __cplusplus
extern "C" {
#endif
/* Has no effect, because farcall uses no MPI communicator. Returns AM_OK. */
AM2_API int AMMPI_SetEndpointCommunicator(void* communicator);
#ifdef __cplusplus
}
#endif

#ifdef AM2_DIALECT_1995
#include "farcall_am2_1995.h"
#endif

#endif
