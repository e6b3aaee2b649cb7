/* SPDX-License-Identifier: Apache-2.0 */

// Runs an empty region as often as the argument says, on device 0.
#include <stdlib.h>

int main(int argc, char** argv) {
  const int count = argc == 2 ? atoi(argv[1]) : 1;
  for (int i = 0; i < count; ++i) {
#pragma omp target device(0)
    {
    }
  }
  return 0;
}
