/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that end their process. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int zero;
static volatile int many = 1000;
static int* volatile nowhere;

uint64_t write_nowhere(void) {
  *nowhere = 1;
  return 0;
}

static void* thread_that_writes_nowhere(void* unused) {
  (void)unused;
  *nowhere = 1;
  return 0;
}

/* Fails in a new thread, for which the kernel waits. */
uint64_t write_nowhere_in_a_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, 0, thread_that_writes_nowhere, 0) != 0) return 1;
  pthread_join(thread, 0);
  return 0;
}

static void* thread_that_aborts(void* unused) {
  (void)unused;
  abort();
}

uint64_t call_abort_in_a_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, 0, thread_that_aborts, 0) != 0) return 1;
  pthread_join(thread, 0);
  return 0;
}

uint64_t divide_by_zero(void) {
#if defined(__x86_64__)
  return (uint64_t)(many / zero);
#else
  /* Other processors do not raise the signal themselves. */
  raise(SIGFPE);
  return (uint64_t)zero;
#endif
}

static volatile double nothing;

/* Returns 1 if the division raises no signal. */
uint64_t divide_double_by_zero(void) {
  const double infinity = 1.0 / nothing;
  return infinity > 1.0;
}

uint64_t call_abort(void) { abort(); }

uint64_t call_exit(int32_t status) { exit(status); }

uint64_t call_exit_at_once(int32_t status) { _exit(status); }

/* The text stays in a buffer if standard output is a file. */
uint64_t print_and_exit(int32_t status) {
  printf("last output");
  exit(status);
}

/* Prints and exits with the stream's lock held, like a library function that calls exit(). */
uint64_t print_and_exit_with_lock(int32_t status) {
  flockfile(stdout);
  printf("last output");
  exit(status);
}

static int ends[2];
static volatile int reads;

/* Blocks for ever with the lock of a stream held: the pipe has no writer. */
static void* thread_that_reads(void* unused) {
  (void)unused;
  FILE* const file = fdopen(ends[0], "r");
  if (file == 0) return 0;
  flockfile(file);
  reads = 1;
  (void)getc_unlocked(file);
  return 0;
}

uint64_t print_and_exit_beside_a_reader(int32_t status) {
  pthread_t thread;
  if (pipe(ends) != 0 || pthread_create(&thread, 0, thread_that_reads, 0) != 0) return 1;
  while (!reads)
    usleep(1000);
  return print_and_exit(status);
}

uint64_t raise_signal(int32_t number) { return (uint64_t)raise(number); }

/* Recurses until the stack overflows. */
__attribute__((noinline)) uint64_t use_all_stack(uint64_t depth) {
  volatile uint64_t frame[512];
  frame[0] = depth;
  if (zero != 0) return depth;
  const uint64_t below = use_all_stack(depth + 1);
  return below + frame[0];
}
