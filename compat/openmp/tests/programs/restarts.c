/* SPDX-License-Identifier: Apache-2.0 */

// Kills the process of device 0 between two regions, with nothing mapped there.
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pid_t process_of_device(void) {
  pid_t process = 0;
#pragma omp target map(from : process)
  process = getpid();
  return process;
}

int main(void) {
  const pid_t first = process_of_device();
  if (first == getpid() || kill(first, SIGKILL) != 0) return 3;
  const struct timespec pause = {0, 1000000};
  while (kill(first, 0) == 0) // the job has not noticed the end
    nanosleep(&pause, NULL);
  const pid_t second = process_of_device();
  printf("another process: %s\n", second != first && second != getpid() ? "yes" : "no");
  return 0;
}
