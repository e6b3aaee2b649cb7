/* SPDX-License-Identifier: Apache-2.0 */

// Tasks with regions on two devices: regions that run at the same time, and dependences.
// The argument is the path of a pipe.
#include <omp.h>
#include <stdio.h>
#include <string.h>

#pragma omp declare target
// Returns when the other region has opened the pipe, too.
static void meet(const char* path, int writes) {
  FILE* const pipe = fopen(path, writes ? "w" : "r");
  if (pipe != NULL) fclose(pipe);
}
#pragma omp end declare target

int main(int argc, char** argv) {
  char path[256] = "";
  if (argc != 2) return 2;
  strncpy(path, argv[1], sizeof path - 1);
  int first = 0, second = 0, third = 0;
#pragma omp parallel
#pragma omp single
  {
#pragma omp target nowait device(0) map(to : path) map(from : first) depend(out : first)
    {
      meet(path, 0);
      first = 1;
    }
#pragma omp target nowait device(1) map(to : path) map(from : second) depend(out : second)
    {
      meet(path, 1);
      second = 2;
    }
#pragma omp target nowait device(1) map(to : first, second) map(from : third)                      \
    depend(in : first, second) depend(out : third)
    third = first + second;
#pragma omp task depend(in : third) shared(third)
    printf("third: %d\n", third);
#pragma omp taskwait
  }
  return third == 3 ? 0 : 1;
}
