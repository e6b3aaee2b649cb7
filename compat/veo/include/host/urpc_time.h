/* The clocks of veo_time.h, under the name they have in AVEO's lower layer. */
#ifndef FARCALL_COMPAT_VEO_URPC_TIME_H
#define FARCALL_COMPAT_VEO_URPC_TIME_H

#include "veo_time.h"

#endif
