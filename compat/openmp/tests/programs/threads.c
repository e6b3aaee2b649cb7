/* SPDX-License-Identifier: Apache-2.0 */

// Prints the number of threads of each device, and the processor time of idle threads of device 0.
#include <omp.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t clock) {
  struct timespec now;
  return clock_gettime(clock, &now) == 0 ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : -1;
}

int main(void) {
  for (int d = 0; d < omp_get_num_devices(); ++d) {
    int count = 0;
#pragma omp target device(d) map(from : count)
#pragma omp parallel
#pragma omp single
    count = omp_get_num_threads();
    printf("device %d: %d threads\n", d, count);
  }
  pid_t process = 0;
#pragma omp target device(0) map(from : process)
#pragma omp parallel num_threads(4)
#pragma omp single
  process = getpid();
  clockid_t clock;
  if (clock_getcpuclockid(process, &clock) != 0) return 1;
  const double before = seconds_of(clock);
  sleep(1);
  printf("idle: %.3f s\n", seconds_of(clock) - before);
  return 0;
}
