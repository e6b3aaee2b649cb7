/* For kernels only: what they can ask of the queue that called them. Link with -laveoVE. */
#ifndef FARCALL_COMPAT_VEO_VEO_VE_H
#define FARCALL_COMPAT_VEO_VEO_VE_H

#ifndef __ve__
#error "veo_ve.h is for kernels: include it in code for the target, which ncc compiles with __ve__"
#endif

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes to *result what a request before this one returned, on the same context: offs 0 is the
 * last before this one, 1 the one before that. 0; -1 when there is no such request, or it is too
 * old. */
int veo_prev_req_result(int offs, uint64_t* result);

#ifdef __cplusplus
}
#endif

#endif
