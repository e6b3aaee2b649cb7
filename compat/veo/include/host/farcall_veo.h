/* What farcall adds to VEO's API. */
#ifndef FARCALL_COMPAT_VEO_FARCALL_VEO_H
#define FARCALL_COMPAT_VEO_FARCALL_VEO_H

#ifdef __cplusplus
extern "C" {
#endif

/* Why the last call of this thread that failed did: a sentence that names what it was about and
 * what to do. Empty when none has; never NULL. Calls that succeed leave it. It stays valid until
 * the thread's next failure. Local. */
const char* farcall_veo_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
