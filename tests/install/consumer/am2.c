// SPDX-License-Identifier: Apache-2.0

/* One program for the three headers of AM-2. */
#if defined(AMUDP)
#include <amudp.h>
#elif defined(AMMPI)
#include <ammpi.h>
#else
#include <am2.h>
#endif

static int seen = 0;
static void take(void* token, int32_t value) {
  (void)token;
  seen = value;
}

int main(void) {
  eb_t bundle;
  ep_t ep;
  en_t name;
  if (AM_Init() != AM_OK || AM_AllocateBundle(AM_SEQ, &bundle) != AM_OK ||
      AM_AllocateEndpoint(bundle, &ep, &name) != AM_OK || AM_SetTag(ep, AM_ALL) != AM_OK ||
      AM_Map(ep, 0, name, 1) != AM_OK || AM_SetExpectedResources(ep, 1, 1) != AM_OK ||
      AM_SetHandler(ep, 1, take) != AM_OK || AM_Request1(ep, 0, 1, 42) != AM_OK)
    return 1;
  return AM_Terminate() == AM_OK && seen == 42 ? 0 : 2;
}
