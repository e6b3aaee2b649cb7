// SPDX-License-Identifier: Apache-2.0

// Functions that tests of native calls call: plain C without farcall.
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

double multiply(double a, double b) { return a * b; }

/// Multiplies values in place, in memory of the node.
long scale(double factor, double* values, long count) {
  for (long i = 0; i < count; ++i)
    values[i] *= factor;
  return count;
}

/// Counts the calls since the library was loaded.
int count(void) {
  static int calls = 0;
  return ++calls;
}

size_t length_of(const char* text) { return strlen(text); }
size_t misalignment_of(const void* bytes) { return (uintptr_t)bytes % 16; }
bool is_null(const void* one, const void* other, const void* third) {
  return one == NULL && other == NULL && third == NULL;
}

/// Returns how many of the bytes were not 0, and fills them.
size_t fill(unsigned char* bytes, size_t size, unsigned char value) {
  size_t others = 0;
  for (size_t i = 0; i < size; ++i)
    others += bytes[i] != 0;
  memset(bytes, value, size);
  return others;
}

void to_upper(char* text, size_t size) {
  for (size_t i = 0; i < size; ++i)
    text[i] = (char)toupper((unsigned char)text[i]);
}

/// Joins two texts with buffers of each kind and values between them.
int join(char separator, const char* one, const char* other, char* joined, size_t* uses, double d) {
  ++*uses;
  const size_t size = strlen(one);
  memcpy(joined, one, size);
  joined[size] = separator;
  strcpy(joined + size + 1, other);
  return (int)d;
}

int fail_with(int error_number) {
  errno = error_number;
  return -1;
}

void do_nothing(void) {}

/// Sets the first word, and waits until the second one is set.
void wait_for_second(_Atomic uint32_t* words) {
  atomic_store(&words[0], 1);
  while (atomic_load(&words[1]) == 0)
    sched_yield();
}

void crash(void) {
  volatile int* volatile address = NULL;
  *address = 1;
}

int a_variable = 42;
