/* SPDX-License-Identifier: Apache-2.0 */

/* Access of a kernel to the requests of the context in which it runs. For kernels only; link with
 * -laveoVE. */
#ifndef FARCALL_COMPAT_VEO_VEO_VE_H
#define FARCALL_COMPAT_VEO_VEO_VE_H

#ifndef __ve__
#error "veo_ve.h is for kernels: include it in code for the target, which ncc compiles with __ve__"
#endif

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the result of an earlier request of the calling kernel's context in *result. `offs` counts
 * backwards from the kernel's own request: 0 is the last request before it, 1 the request before
 * that one. Returns 0, or -1 if there is no such request or it is too old. */
int veo_prev_req_result(int offs, uint64_t* result);

#ifdef __cplusplus
}
#endif

#endif
