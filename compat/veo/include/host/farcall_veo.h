/* SPDX-License-Identifier: Apache-2.0 */

/* Functions that NEC's VEO API lacks. */
#ifndef FARCALL_COMPAT_VEO_FARCALL_VEO_H
#define FARCALL_COMPAT_VEO_FARCALL_VEO_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the error text of the last call that failed in this thread, with the object concerned and
 * a remedy. The text is empty if no call has failed; the pointer is never NULL. Successful calls do
 * not change the text. The pointer is valid until the thread's next failure. Never blocks. */
const char* farcall_veo_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
