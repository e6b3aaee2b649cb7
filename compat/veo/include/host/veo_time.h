/* SPDX-License-Identifier: Apache-2.0 */

/* Clocks for measurements, in microseconds. */
#ifndef FARCALL_COMPAT_VEO_VEO_TIME_H
#define FARCALL_COMPAT_VEO_VEO_TIME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

/* Returns the CPU time of the calling thread. */
static __inline__ long get_time_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (long)t.tv_sec * 1000000L + t.tv_nsec / 1000L;
}

/* Returns the time of day. */
static __inline__ long get_time_us_real(void) {
  struct timeval t;
  gettimeofday(&t, NULL);
  return (long)t.tv_sec * 1000000L + (long)t.tv_usec;
}

/* Returns the CPU time that the calling thread has used since get_time_us() returned `start`. */
static __inline__ long timediff_us(long start) { return get_time_us() - start; }

/* Spins until the calling thread has used `duration` microseconds of CPU time. */
static __inline__ void busy_sleep_us(long duration) {
  const long start = get_time_us();
  while (timediff_us(start) < duration) {
  }
}

#endif
