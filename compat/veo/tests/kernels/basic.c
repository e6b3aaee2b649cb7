/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that count, record, wait and inspect their process. Built with debug information, and
   stripped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* --- data that tests read and write ----------------------------------------------------------- */

uint64_t variable = 42;
int64_t table[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
unsigned char bytes[256];
uint64_t constructed;

__attribute__((constructor)) static void construct(void) { constructed = 7; }

/* --- small calls ------------------------------------------------------------------------------ */

uint64_t nothing(void) { return 0; }
uint64_t same(uint64_t value) { return value; }
int64_t add(int64_t a, int64_t b) { return a + b; }
uint64_t process_id(void) { return (uint64_t)getpid(); }
uint64_t thread_id(void) { return (uint64_t)syscall(SYS_gettid); }
uint64_t load_word(const uint64_t* from) { return *from; }
uint64_t is_aligned(const void* p, uint64_t to) { return (uintptr_t)p % to == 0; }

uint64_t store_word(uint64_t* to, uint64_t value) {
  *to = value;
  return value;
}

/* The name has the maximum length. */
#ifdef VEO_LONG_NAME
uint64_t VEO_LONG_NAME(void) { return 255; }
#endif

/* --- counting, remembering -------------------------------------------------------------------- */

uint64_t counter;
static __thread uint64_t counter_of_thread;

uint64_t count(void) { return __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST); }
uint64_t counted(void) { return __atomic_load_n(&counter, __ATOMIC_SEQ_CST); }
uint64_t count_in_thread(void) { return ++counter_of_thread; }

/* Recorded values, in the order of the calls. */
enum { max_trace = 4096 };
uint64_t trace[max_trace];
uint64_t traced;

uint64_t note(uint64_t what) {
  const uint64_t at = __atomic_fetch_add(&traced, 1, __ATOMIC_SEQ_CST);
  if (at < max_trace) trace[at] = what;
  return at;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void nap(long microseconds) {
  const struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&t, NULL);
}

/* Waits until the word is not 0; returns false after half a minute. */
static int becomes_set(const uint64_t* word) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec > 30) return 0;
    nap(50);
  }
  return 1;
}

/* Sets gate[0], waits until gate[1] is not 0, and returns it; 0 after the time limit. */
uint64_t wait_at(uint64_t* gate) {
  __atomic_store_n(&gate[0], 1, __ATOMIC_SEQ_CST);
  return becomes_set(&gate[1]) ? gate[1] : 0;
}

/* A server that programs call through memory, at the address from set_calls. While calls[0] is not
   2, it handles each 1 there: it doubles calls[1] and sets calls[0] to 0. Returns the number of
   calls; all bits after the time limit. */
static uint64_t* calls;

uint64_t set_calls(uint64_t* where) {
  calls = where;
  return 0;
}

uint64_t serve_calls(void) {
  for (uint64_t served = 0;; ++served) {
    if (!becomes_set(&calls[0])) return ~UINT64_C(0);
    if (__atomic_load_n(&calls[0], __ATOMIC_ACQUIRE) == 2) return served;
    calls[1] *= 2;
    __atomic_store_n(&calls[0], 0, __ATOMIC_RELEASE);
  }
}

/* Waits like wait_at, but gate[0] gets the address of a variable on the stack, whose value is
   returned. */
uint64_t show_stack_at(uint64_t* gate) {
  volatile uint64_t here = 1234;
  __atomic_store_n(&gate[0], (uint64_t)(uintptr_t)&here, __ATOMIC_SEQ_CST);
  return becomes_set(&gate[1]) ? here : 0;
}

uint64_t pause_for(uint64_t microseconds) {
  nap((long)microseconds);
  return microseconds;
}

/* Stores after a delay, so that requests that do not wait for it run too early. */
uint64_t store_late(uint64_t* to, uint64_t value) {
  nap(20000);
  *to = value;
  return value;
}

/* --- memory ----------------------------------------------------------------------------------- */

uint64_t sum_bytes(const uint8_t* p, uint64_t n) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i)
    sum += p[i];
  return sum;
}

uint64_t sum_words(const int64_t* p, uint64_t n) {
  int64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i)
    sum += p[i];
  return (uint64_t)sum;
}

/* Sets p[i] = first + i. */
uint64_t fill_bytes(uint8_t* p, uint64_t n, uint8_t first) {
  for (uint64_t i = 0; i < n; ++i)
    p[i] = (uint8_t)(first + i);
  return n;
}

uint64_t complement_bytes(uint8_t* p, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i)
    p[i] = (uint8_t)~p[i];
  return n;
}

uint64_t copy_bytes(uint8_t* to, const uint8_t* from, uint64_t n) {
  memcpy(to, from, n);
  return n;
}

/* Uses `size` bytes of stack, and returns the number of frames. Each frame keeps a number until its
   callee has returned, so that compilers cannot remove it. Frames are at most one page, so that
   none skips the guard page. */
enum { frame_size = 4096 };

__attribute__((noinline)) uint64_t use_stack(uint64_t size) {
  volatile unsigned char frame[frame_size];
  __asm__ volatile("" : : "r"(frame) : "memory"); /* otherwise clang makes a loop with one frame */
  frame[0] = (unsigned char)(size / frame_size);
  frame[frame_size - 1] = 1;
  const uint64_t below = size > frame_size ? use_stack(size - frame_size) : 0;
  if (frame[0] != (unsigned char)(size / frame_size)) return 0;
  return below + frame[frame_size - 1];
}

/* --- environment ------------------------------------------------------------------------------ */

static uint64_t reply(const char* text, char* to, uint64_t size) {
  if (text == NULL || strlen(text) >= size) return 0;
  memcpy(to, text, strlen(text) + 1);
  return strlen(text) + 1;
}

/* Copies a variable's value and returns its size with the final zero; 0 if it is unset or does not
   fit. */
uint64_t environment(const char* name, char* value, uint64_t size) {
  return reply(getenv(name), value, size);
}

uint64_t load(const char* file) { return dlopen(file, RTLD_NOW) != NULL; }

uint64_t working_folder(char* to, uint64_t size) {
  char folder[4096];
  return reply(getcwd(folder, sizeof folder), to, size);
}

/* Returns the number of CPUs that the calling thread may use. */
uint64_t processors(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return (uint64_t)CPU_COUNT(&set);
}
