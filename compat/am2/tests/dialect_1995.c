/* SPDX-License-Identifier: Apache-2.0 */

/* A program in the dialect of 1995, except for names of types, which have changed since. */
#define AM2_DIALECT_1995
#include <am2.h>

#include <stdlib.h>

static int seen = 0;
static void take(void* token, int a0, int a1, int a2, int a3) {
  (void)token;
  seen = a0 + a1 + a2 + a3;
}

int main(void) {
  eb_t bundle;
  ea_t first, second, third, fourth;
  en_t *name, *known;
  if (AM_Init() != AM_OK || AM_AllocateBundle(AM_SEQ, &bundle) != AM_OK) return 1;
  if (AM_AllocateEndpoint(bundle, &first) != AM_OK) return 2;
  if (AM_AllocateEndpoint(bundle, &second, &name) != AM_OK) return 3;
  if (AM_AllocateKnownEndpoint(bundle, &third, 4711) != AM_OK) return 4;
  if (AM_AllocateKnownEndpoint(bundle, &fourth, &known, 4711) != AM_OK) return 5;
  if (AM_GetEventMask(bundle) != AM_NOEVENTS) return 6;
  if (AM_SetTag(second, AM_ALL) != AM_OK || AM_Map(second, 0, *name, 5) != AM_OK ||
      AM_SetExpectedResources(second, 1, 1) != AM_OK || AM_SetHandler(second, 1, take) != AM_OK)
    return 7;
  if (AM_Request4(second, 0, 1, 1, 2, 3, 4) != AM_OK || seen != 10) return 8;
  if (AM_SetEventMask(bundle, AM_NOTEMPTY) != AM_OK || AM_PostSvar(bundle) != AM_OK ||
      AM_Wait(bundle) != AM_OK)
    return 9;
  if (AM_Unmap(first, 0) != AM_ERR_RESOURCE || AM_ERR_NOT_TERM == AM_OK) return 10;
  free(name);
  free(known);
  return AM_Terminate();
}
