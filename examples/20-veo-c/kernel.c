// SPDX-License-Identifier: Apache-2.0

/* The kernel: runs in a helper process. Compile it with `ncc -shared -fpic -o libkernel.so
 * kernel.c`, or with any other compiler and -g. */
double weighted_sum(const double* values, long n, double weight) {
  double sum = 0;
  for (long i = 0; i < n; ++i) {
    sum += weight * values[i];
  }
  return sum;
}
