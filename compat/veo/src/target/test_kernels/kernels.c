/* SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum colour { red, green = 70000 };
enum direction { backward = -1, forward };
typedef int word;
typedef const word count;
typedef count size_of_it;
typedef double real;
typedef void nothing;
struct pair {
  double first;
  double second;
};

int runs;

void no_arguments(void) { ++runs; }

signed char narrow_signed(signed char a, short b, int c, long d) {
  return (signed char)(a + b + c + d);
}

unsigned char narrow_unsigned(unsigned char a, unsigned short b, unsigned c, unsigned long d) {
  return (unsigned char)(a + b + c + d);
}

short negative_short(void) { return -2; }
unsigned short big_short(void) { return 0xFFFE; }
int negative_int(void) { return -3; }
unsigned big_int(void) { return 0xFFFFFFFD; }

bool negation(bool value) { return !value; }

float half_single(float value) { return value / 2; }
double half(double value) { return value / 2; }
double quotient(double dividend, double divisor) { return dividend / divisor; }

enum direction opposite(enum colour paint, enum direction way) {
  return paint == green && way == forward ? backward : forward;
}

real scaled(size_of_it factor, volatile real value) { return factor * value; }
nothing named_nothing(long value) { runs += (int)value; }

const char* third(const char* text, int (*function)(void), double array[4], int* restrict other) {
  return function != 0 || array != 0 || other != 0 ? text + 2 : 0;
}

long odd_ones(struct pair a, long double b, double _Complex c, __int128 d, int last) {
  return (long)(a.first + a.second + (double)b + creal(c)) + (long)d + last;
}

struct reals {
  float first;
  float second;
};
struct nested {
  struct {
    const real inner[1];
  } of;
};
struct mixed_word {
  float first;
  int second;
};
union either {
  double real;
  long integer;
};
struct packed {
  char first;
  float second;
} __attribute__((packed));
struct single {
  float value;
};

float sum_of_reals_in(struct reals a, struct nested b, struct single c) {
  return a.first + 10 * a.second + 100 * (float)b.of.inner[0] + 1000 * c.value;
}
struct reals swapped(struct reals a) { return (struct reals){a.second, a.first}; }
struct nested doubled(struct nested a) { return (struct nested){{{2 * a.of.inner[0]}}}; }
long sum_of_words(struct mixed_word a, union either b) {
  return (long)a.first + a.second + b.integer;
}
int second_of_packed(struct packed a) { return (int)a.second; }

int variadic(int count_of_more, ...) {
  va_list more;
  va_start(more, count_of_more);
  const int first = va_arg(more, int);
  va_end(more);
  return first;
}
