/* SPDX-License-Identifier: Apache-2.0 */

/* A library that defines some names of basic.c again, and uses others of basic.c. */
#include <stdint.h>

extern int64_t table[16];

uint64_t variable = 4242;

/* The function in basic.c returns its argument. */
uint64_t same(uint64_t value) { return value + 1000; }

uint64_t sum_of_table(void) {
  int64_t sum = 0;
  for (int i = 0; i < 16; ++i)
    sum += table[i];
  return (uint64_t)sum;
}
