/* SPDX-License-Identifier: Apache-2.0 */

// A region that ends its process.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  int value = 1;
#pragma omp target map(tofrom : value)
  {
    value = 2;
    abort();
  }
  printf("not reached: %d\n", value);
  return 0;
}
