/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FARCALL_AM2_H
#define FARCALL_AM2_H

/* The interface of Active Messages 2.0 except for names of endpoints. The type of such a name
   differs between am2.h, amudp.h and ammpi.h. Programs include one of these three headers, and each
   of them includes this header. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define AM2_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ------------------------------------------------------------------------------------
 */

typedef uint64_t tag_t;             /* key that a message must carry to be accepted */
typedef uint8_t handler_t;          /* index into an endpoint's handler table */
typedef struct am2_bundle* eb_t;    /* group of endpoints that are polled and waited for together */
typedef struct am2_endpoint* ep_t;  /* sends and receives messages */
typedef ep_t ea_t;                  /* the name of ep_t in 1995 */
typedef int op_t;                   /* kind of a returned message: AM_REQUEST_M, ... */
typedef void (*amx_handler_fn_t)(); /* a handler of any signature */

typedef enum { amx_Short = 0, amx_Medium = 1, amx_Long = 2, amx_NumCategories = 3 } amx_category_t;

typedef enum { AM_SEQ = 0, AM_PAR = 1, AM_NUM_BUNDLE_MODES } am2_bundle_mode_t;
typedef enum { AM_NOEVENTS = 0, AM_NOTEMPTY = 1, AM_NUMEVENTMASKS } am2_event_mask_t;

/* Counters of an endpoint. The struct may be copied, and sent as bytes. Each array has one element
   for each amx_category_t. */
typedef struct {
  uint64_t requests_sent[3];
  uint64_t requests_received[3];
  uint64_t replies_sent[3];
  uint64_t replies_received[3];
  uint64_t bytes_sent[3]; /* bytes of arguments and payload in requests and replies */
  uint64_t returned;      /* messages that came back undelivered */
  uint64_t slot_waits;    /* requests that had to wait for a slot */
} amx_stats_t;

/* ---- constants --------------------------------------------------------------------------------
 */

#define AM_OK 0
#define AM_ERR_NOT_INIT 1 /* AM_Init or AM_SetExpectedResources has not been called */
#define AM_ERR_BAD_ARG 2
#define AM_ERR_RESOURCE 3 /* a resource is missing, or the call is not allowed in this state */
#define AM_ERR_NOT_SENT 4
#define AM_ERR_IN_USE 5 /* the call would block */

#define AM_NONE ((tag_t)0) /* accepts nothing */
#define AM_ALL ((tag_t)1)  /* accepts everything */

/* Reasons why a message is returned to its sender. Handler 0 gets the reason as its first argument.
 */
#define EBADARGS 1
#define EBADENTRY 2
#define EBADTAG 3
#define EBADHANDLER 4
#define EBADSEGOFF 5
#define EBADLENGTH 6
#define EBADENDPOINT 7
#define ECONGESTION 8
#define EUNREACHABLE 9
#define EREPLYREJECTED 10

/* Kinds of messages that are returned to their sender. Handler 0 gets the kind as its second
   argument. */
#define AM_REQUEST_M 1
#define AM_REQUEST_IM 2
#define AM_REQUEST_XFER_M 3
#define AM_REPLY_M 4
#define AM_REPLY_IM 5
#define AM_REPLY_XFER_M 6

/* ---- the process, and its limits ---------------------------------------------------------------
 */

/* AM_Init and AM_Terminate nest. The AM_Terminate call that matches the first AM_Init call frees
   all bundles and endpoints. */
AM2_API int AM_Init(void);
AM2_API int AM_Terminate(void);

AM2_API int AM_MaxShort(void); /* arguments of a message */
/* Return sizes in bytes for a program's buffers: for payloads of medium messages, and for payloads
   of long messages. The sizes are no limits: longer payloads may be sent. */
AM2_API int AM_MaxMedium(void);
AM2_API int AM_MaxLong(void);
AM2_API int AM_MaxNumHandlers(void);
AM2_API int AM_MaxNumTranslations(int* ntrans);
AM2_API int AM_MaxSegLength(uintptr_t* nbytes);

/* ---- bundles and endpoints ---------------------------------------------------------------------
 */

AM2_API int AM_AllocateBundle(int type, eb_t* endb);
AM2_API int AM_FreeBundle(eb_t bundle);
AM2_API int AM_FreeEndpoint(ep_t ea);
AM2_API int AM_MoveEndpoint(ep_t ea, eb_t from_bundle, eb_t to_bundle);
AM2_API int AM_SetExpectedResources(ep_t ea, int n_endpoints, int n_outstanding_requests);

AM2_API int AM_SetTag(ep_t ea, tag_t tag);
AM2_API int AM_GetTag(ep_t ea, tag_t* tag);
AM2_API int AM_SetSeg(ep_t ea, void* addr, uintptr_t nbytes);
AM2_API int AM_GetSeg(ep_t ea, void** addr, uintptr_t* nbytes);

AM2_API int AM_UnMap(ep_t ea, int index);
AM2_API int AM_GetTranslationInuse(ep_t ea, int i);
AM2_API int AM_GetTranslationTag(ep_t ea, int i, tag_t* tag);
AM2_API int AM_GetNumTranslations(ep_t ep, int* pntrans);
AM2_API int AM_SetNumTranslations(ep_t ep, int ntrans);
#define AM_Unmap(ea, index) AM_UnMap(ea, index)

AM2_API int AM2_SetHandler(ep_t ea, handler_t handler, amx_handler_fn_t function);
AM2_API int AM2_SetHandlerAny(ep_t ea, handler_t* handler, amx_handler_fn_t function);
#define AM_SetHandler(ea, handler, function)                                                       \
  AM2_SetHandler((ea), (handler_t)(handler), (amx_handler_fn_t)(function))
#define AM_SetHandlerAny(ea, handler, function)                                                    \
  AM2_SetHandlerAny((ea), (handler), (amx_handler_fn_t)(function))
AM2_API int AM_GetNumHandlers(ep_t ep, int* n_handlers);
AM2_API int AM_SetNumHandlers(ep_t ep, int n_handlers);

/* ---- progress ----------------------------------------------------------------------------------
 */

AM2_API int AM_GetEventMask(eb_t eb, int* mask);
AM2_API int AM_SetEventMask(eb_t eb, int mask);
AM2_API int AM_WaitSema(eb_t eb);
AM2_API int AM_Poll(eb_t bundle);
/* Ends one call of AM_WaitSema for this bundle. If no thread waits now, the next call of
   AM_WaitSema returns at once. */
AM2_API int AM2_PostSema(eb_t eb);
#define AM_Wait(eb) AM_WaitSema(eb)

/* ---- in a handler ------------------------------------------------------------------------------
 */

AM2_API int AM_GetDestEndpoint(void* token, ep_t* endp);
AM2_API int AM_GetMsgTag(void* token, tag_t* tagp);
AM2_API int AMX_GetSourceId(void* token, int* srcid);
AM2_API int AMX_GetTokenInfo(void* token, handler_t* handler, amx_category_t* category,
                             int* is_request);

/* ---- additions of AMUDP and AMMPI --------------------------------------------------------------
 */

AM2_API int AMX_SetTranslationTag(ep_t ea, int index, tag_t tag);
AM2_API int AMX_GetEndpointStatistics(ep_t ep, amx_stats_t* stats);
AM2_API int AMX_ResetEndpointStatistics(ep_t ep);
AM2_API int AMX_AggregateStatistics(amx_stats_t* running_sum, amx_stats_t* newvalues);
AM2_API const char* AMX_DumpStatistics(void* fp, amx_stats_t* stats, int globalAnalysis);
AM2_API extern const amx_stats_t AMX_initial_stats;

/* Callback functions that run before and after each handler of an endpoint. They must not send
   messages. */
typedef void (*amx_handler_prefn_t)(amx_category_t category, int isReq, int handlerId, void* token,
                                    void* buf, size_t nbytes, int numargs, uint32_t* args);
typedef void (*amx_handler_postfn_t)(amx_category_t category, int isReq);
AM2_API int AMX_SetHandlerCallbacks(ep_t ep, amx_handler_prefn_t pre, amx_handler_postfn_t post);

/* If non-zero, each error that a call returns is also printed. */
AM2_API extern int AMX_VerboseErrors;
AM2_API extern int AMX_SilentMode; /* has no effect */
AM2_API extern const char* AMX_ProcessLabel;
AM2_API void AMX_FatalErr(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Allocates memory for AM_SetSeg. Processes on this machine can copy long payloads directly into
   it; AM_SetSeg also takes any other memory. Returns NULL if no such memory is left. The caller
   frees the memory by AM2_FreeSegment. */
AM2_API void* AM2_AllocateSegment(size_t nbytes);
AM2_API void AM2_FreeSegment(void* segment);

/* ---- messages: functions behind the macros of farcall_am2_messages.h ---------------------------
 */

AM2_API int AMX_Request(ep_t ep, int dest, handler_t handler, int numargs, ...);
AM2_API int AMX_RequestVA(ep_t ep, int dest, handler_t handler, int numargs, va_list args);
AM2_API int AMX_RequestI(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                         int numargs, ...);
AM2_API int AMX_RequestIVA(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                           int numargs, va_list args);
AM2_API int AMX_RequestXfer(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                            uintptr_t dest_offset, int async, int numargs, ...);
AM2_API int AMX_RequestXferVA(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                              uintptr_t dest_offset, int async, int numargs, va_list args);
AM2_API int AMX_Reply(void* token, handler_t handler, int numargs, ...);
AM2_API int AMX_ReplyVA(void* token, handler_t handler, int numargs, va_list args);
AM2_API int AMX_ReplyI(void* token, handler_t handler, void* source, size_t nbytes, int numargs,
                       ...);
AM2_API int AMX_ReplyIVA(void* token, handler_t handler, void* source, size_t nbytes, int numargs,
                         va_list args);
AM2_API int AMX_ReplyXfer(void* token, handler_t handler, void* source, size_t nbytes,
                          uintptr_t dest_offset, int numargs, ...);
AM2_API int AMX_ReplyXferVA(void* token, handler_t handler, void* source, size_t nbytes,
                            uintptr_t dest_offset, int numargs, va_list args);
AM2_API int AMX_GetXfer(ep_t ep, int dest, uintptr_t source_offset, handler_t handler,
                        uintptr_t dest_offset, size_t nbytes, int async, int numargs, ...);
AM2_API int AMX_GetXferVA(ep_t ep, int dest, uintptr_t source_offset, handler_t handler,
                          uintptr_t dest_offset, size_t nbytes, int async, int numargs,
                          va_list args);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "farcall_am2_messages.h"

#endif
