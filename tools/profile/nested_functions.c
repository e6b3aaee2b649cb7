// SPDX-License-Identifier: Apache-2.0

/* Functions for a test of the symbolizer. outer_work() contains nested_work(), as GNU C allows, but
 * the addresses of nested_work() are outside of outer_work(). inlined_step() is inlined into
 * nested_work(). */
static inline __attribute__((always_inline)) double inlined_step(double x, long turns) {
  for (long i = 0; i < turns; ++i)
    x = x * 1.0000001 + 1e-9;
  return x;
}

double outer_work(double start, long turns) {
  double x = start;
  __extension__ __attribute__((noinline)) void nested_work(void) {
    x = inlined_step(x, turns) * 0.5;
  }
  for (long i = 0; i < turns; ++i)
    nested_work();
  return x;
}
