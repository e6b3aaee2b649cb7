/* SPDX-License-Identifier: Apache-2.0 */

/* Includes the clocks of veo_time.h under the file name that AVEO's lower layer gives them. */
#ifndef FARCALL_COMPAT_VEO_URPC_TIME_H
#define FARCALL_COMPAT_VEO_URPC_TIME_H

#include "veo_time.h"

#endif
