/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels with several threads. */
#include <omp.h>
#include <stdint.h>

uint64_t max_threads(void) { return (uint64_t)omp_get_max_threads(); }

uint64_t threads_seen(int32_t wanted) {
  uint64_t seen = 0;
#pragma omp parallel num_threads(wanted) reduction(+ : seen)
  seen += 1;
  return seen;
}

/* All threads except the kernel's own write to unmapped memory. */
uint64_t write_nowhere_in_threads(int32_t threads) {
  static int* volatile nowhere;
#pragma omp parallel num_threads(threads)
  {
    if (omp_get_thread_num() != 0) *nowhere = 1;
  }
  return 0;
}

/* Computes 1 + 2 + ... + n with all threads, `times` times. Returns the sum, or 0 if one was wrong.
 */
uint64_t sum_often(int64_t n, int32_t times, int32_t threads) {
  uint64_t sum = 0;
  for (int32_t t = 0; t < times; ++t) {
    sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
    for (int64_t i = 1; i <= n; ++i)
      sum += (uint64_t)i;
    if (sum != (uint64_t)(n * (n + 1) / 2)) return 0;
  }
  return sum;
}
