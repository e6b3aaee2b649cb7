// SPDX-License-Identifier: Apache-2.0

// An OpenMP program for any number of devices: each computes a part of an integral in a task of its
// own. With farcall, the devices are processes of this machine or of others:
//
//   clang-16 -O2 -fopenmp -fopenmp-targets=x86_64-pc-linux-gnu main.c -o integral
//   farcall run --openmp -n 4 ./integral
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  enum { steps = 4000000 };
  const int devices = omp_get_num_devices();
  if (devices == 0) {
    fprintf(stderr, "there is no device; start this program by: farcall run --openmp -n 4\n");
    return 1;
  }
  double* const sums = calloc((size_t)devices, sizeof(double));
  if (sums == NULL) return 1;
#pragma omp parallel
#pragma omp single
  for (int d = 0; d < devices; ++d) {
#pragma omp target teams distribute parallel for nowait device(d) map(tofrom : sums[d : 1])        \
    reduction(+ : sums[d])
    for (int i = d; i < steps; i += devices) {
      const double x = (i + 0.5) / steps;
      sums[d] += 4 / (1 + x * x) / steps;
    }
  }
  double pi = 0;
  for (int d = 0; d < devices; ++d)
    pi += sums[d];
  printf("%d devices: pi is about %.9f\n", devices, pi);
  free(sums);
  return pi > 3.141592 && pi < 3.141593 ? 0 : 1;
}
