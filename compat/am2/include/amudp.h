/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMUDP_H
#define AMUDP_H

/* Header for programs that were written for AMUDP. Messages are sent by farcall, not by UDP. */

#if defined(AMMPI_H) || defined(AM2_H)
#error "a source file includes one of am2.h, amudp.h and ammpi.h"
#endif
/* The macro AMUDP tells programs that support several libraries that they use AMUDP. Such programs
   are compiled with -DAMUDP, and this header redefines the macro as 1. */
#undef AMUDP
#define AMUDP 1

#include "farcall_am2.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* Name of an endpoint. The type is a socket address as in AMUDP, but no socket has this address. */
typedef struct sockaddr_in en_t;

/* Symbols of the functions that take an en_t. The symbols differ from those of am2.h and ammpi.h,
   because en_t is another type there. */
#define AM_AllocateEndpoint AMUDP_AllocateEndpoint
#define AM_Map AMUDP_Map
#define AM_MapAny AMUDP_MapAny
#define AM_GetTranslationName AMUDP_GetTranslationName
#define AM_GetSourceEndpoint AMUDP_GetSourceEndpoint
#define AMX_enEqual AMUDP_enEqual
#include "farcall_am2_names.h"

typedef amx_category_t amudp_category_t;
typedef amx_stats_t amudp_stats_t;
typedef amx_handler_fn_t amudp_handler_fn_t;
#define amudp_Short amx_Short
#define amudp_Medium amx_Medium
#define amudp_Long amx_Long

#define AMUDP_SetTranslationTag AMX_SetTranslationTag
#define AMUDP_GetSourceId AMX_GetSourceId
#define AMUDP_GetTokenInfo AMX_GetTokenInfo
#define AMUDP_GetEndpointStatistics AMX_GetEndpointStatistics
#define AMUDP_ResetEndpointStatistics AMX_ResetEndpointStatistics
#define AMUDP_AggregateStatistics AMX_AggregateStatistics
#define AMUDP_DumpStatistics AMX_DumpStatistics
#define AMUDP_initial_stats AMX_initial_stats
#define AMUDP_SetHandlerCallbacks AMX_SetHandlerCallbacks
#define AMUDP_VerboseErrors AMX_VerboseErrors
#define AMUDP_SilentMode AMX_SilentMode
#define AMUDP_ProcessLabel AMX_ProcessLabel
#define AMUDP_FatalErr AMX_FatalErr
#define AMUDP_Request AMX_Request
#define AMUDP_RequestVA AMX_RequestVA
#define AMUDP_RequestI AMX_RequestI
#define AMUDP_RequestIVA AMX_RequestIVA
#define AMUDP_RequestXfer AMX_RequestXfer
#define AMUDP_RequestXferVA AMX_RequestXferVA
#define AMUDP_Reply AMX_Reply
#define AMUDP_ReplyVA AMX_ReplyVA
#define AMUDP_ReplyI AMX_ReplyI
#define AMUDP_ReplyIVA AMX_ReplyIVA
#define AMUDP_ReplyXfer AMX_ReplyXfer
#define AMUDP_ReplyXferVA AMX_ReplyXferVA

#ifdef __cplusplus
extern "C" {
#endif
/* Has no effect, because the job chooses its network interface. Returns AM_OK. */
AM2_API int AMUDP_SetUDPInterface(uint32_t ipv4);
/* Has no effect, because a waiting thread always spins for a while and then sleeps. */
AM2_API extern int AMUDP_PoliteSync;
#ifdef __cplusplus
}
#endif

#ifdef AM2_DIALECT_1995
#include "farcall_am2_1995.h"
#endif

#endif
