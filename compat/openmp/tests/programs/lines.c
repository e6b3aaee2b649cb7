/* SPDX-License-Identifier: Apache-2.0 */

// Ends while lines of the last region are still on the way to the host.
#include <stdio.h>

int main(void) {
#pragma omp target
  for (int i = 1; i <= 10000; ++i)
    printf("line %d\n", i);
  return 0;
}
