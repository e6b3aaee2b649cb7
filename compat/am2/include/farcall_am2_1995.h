#ifndef FARCALL_AM2_1995_H
#define FARCALL_AM2_1995_H

/* Where the interface of 1995 and 1996 has other names, or fewer arguments: for sources that were
   written for it, with AM2_DIALECT_1995. The constants keep the values that they have here. */

#include <stdlib.h>

#define AM_ERR_NOT_TERM 6

/* The event mask is the result. */
static inline int am2_event_mask_1995(eb_t eb) {
  int mask = AM_NOEVENTS;
  return AM_GetEventMask(eb, &mask) == AM_OK ? mask : -1;
}
#define AM_GetEventMask(eb) am2_event_mask_1995(eb)

#define AM_PostSvar(eb) AM2_PostSema(eb)

/* Without a name; with one that is the program's to free; and at a port that the program knows,
   which means nothing here. */
static inline int am2_allocate_endpoint_1995(eb_t eb, ep_t* ea, en_t** name) {
  en_t own;
  const int status = AM_AllocateEndpoint(eb, ea, &own);
  if (status != AM_OK || name == NULL) return status;
  *name = (en_t*)malloc(sizeof own);
  if (*name == NULL) return AM_ERR_RESOURCE;
  **name = own;
  return AM_OK;
}
#define AM2_PICK3(a, b, c, f, ...) f
#define AM2_ALLOCATE2(eb, ea, unused) am2_allocate_endpoint_1995((eb), (ea), NULL)
#define AM2_ALLOCATE3(eb, ea, name, unused) am2_allocate_endpoint_1995((eb), (ea), (name))
#undef AM_AllocateEndpoint
#define AM_AllocateEndpoint(...)                                                                   \
  AM2_PICK3(__VA_ARGS__, AM2_ALLOCATE3, AM2_ALLOCATE2, AM2_ALLOCATE2)(__VA_ARGS__, 0)
#define AM2_PICK4(a, b, c, d, f, ...) f
#define AM2_KNOWN3(eb, ea, port, unused) am2_allocate_endpoint_1995((eb), (ea), NULL)
#define AM2_KNOWN4(eb, ea, name, port, unused) am2_allocate_endpoint_1995((eb), (ea), (name))
#define AM_AllocateKnownEndpoint(...)                                                              \
  AM2_PICK4(__VA_ARGS__, AM2_KNOWN4, AM2_KNOWN3, AM2_KNOWN3, AM2_KNOWN3)(__VA_ARGS__, 0)

/* Whether a medium request waits was not said then. */
#define AM_RequestMediumAsync4 AM_RequestI4
#define AM_RequestMediumAsync8 AM_RequestI8

#endif
