/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FARCALL_AM2_1995_H
#define FARCALL_AM2_1995_H

/* Names and signatures of the Active Messages interface of 1995 and 1996 that differ from version
   2.0. Sources that are compiled with AM2_DIALECT_1995 use them. Constants have the values of
   farcall_am2.h. */

#include <stdlib.h>

#define AM_ERR_NOT_TERM 6

/* Returns the event mask, or -1 on errors. In 1995 AM_GetEventMask returned the mask as its result.
 */
static inline int am2_event_mask_1995(eb_t eb) {
  int mask = AM_NOEVENTS;
  return AM_GetEventMask(eb, &mask) == AM_OK ? mask : -1;
}
#define AM_GetEventMask(eb) am2_event_mask_1995(eb)

#define AM_PostSvar(eb) AM2_PostSema(eb)

/* Allocates an endpoint. If `name` is not NULL, the endpoint's name is stored in new memory, and
   the address of this memory in *name. The program frees the memory. AM_AllocateKnownEndpoint also
   takes a port, which is ignored. */
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

/* The Async names of medium requests stand for the functions without Async, because medium requests
   of 1995 may wait for a slot. */
#define AM_RequestMediumAsync4 AM_RequestI4
#define AM_RequestMediumAsync8 AM_RequestI8

#endif
