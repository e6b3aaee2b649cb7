/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that return their arguments. */
#include <stdint.h>

/* --- one argument each, returned as the kernel sees it, extended by its type ------------------ */

int64_t from_i64(int64_t v) { return v; }
uint64_t from_u64(uint64_t v) { return v; }
int64_t from_i32(int32_t v) { return v; }
uint64_t from_u32(uint32_t v) { return v; }
int64_t from_i16(int16_t v) { return v; }
uint64_t from_u16(uint16_t v) { return v; }
int64_t from_i8(int8_t v) { return v; }
uint64_t from_u8(uint8_t v) { return v; }

/* Return thousandths as an integer, so that the caller need not know the result's type. */
int64_t from_double(double v) { return (int64_t)(v * 1000); }
int64_t from_float(float v) { return (int64_t)(v * 1000); }

/* --- results of other types ------------------------------------------------------------------- */

double halved(double v) { return v / 2; }
float halved_float(float v) { return v / 2; }
int minus_one(void) { return -1; }
int8_t minus_two(void) { return -2; }
int16_t minus_three(void) { return -3; }
uint32_t max_u32(void) { return UINT32_MAX; }
uint8_t max_u8(void) { return UINT8_MAX; }
_Bool truth(uint64_t v) { return v != 0; }
void no_result(uint64_t* to) { *to = 1; }
uint64_t* a_pointer(uint64_t* p) { return p + 1; }

enum colour { red = 3, blue = -4 };
enum colour a_colour(uint64_t is_blue) { return is_blue ? blue : red; }

/* --- many arguments --------------------------------------------------------------------------- */

int64_t seen_integers[10];
double seen_reals[11];

/* Takes more integers and reals than there are registers, of all sizes, alternating. */
uint64_t mixed(int8_t i0, double r0, uint8_t i1, float r1, int16_t i2, double r2, uint16_t i3,
               float r3, int32_t i4, double r4, uint32_t i5, float r5, int64_t i6, double r6,
               uint64_t i7, float r7, int8_t i8, double r8, int32_t i9, float r9, double r10) {
  const int64_t integers[10] = {i0, i1, i2, i3, i4, i5, i6, (int64_t)i7, i8, i9};
  const double reals[11] = {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10};
  for (int i = 0; i < 10; ++i)
    seen_integers[i] = integers[i];
  for (int i = 0; i < 11; ++i)
    seen_reals[i] = reals[i];
  return 21;
}

/* Returns 1 * first + 2 * second + ..., which depends on the order. */
int64_t ten_doubles(double a, double b, double c, double d, double e, double f, double g, double h,
                    double i, double j) {
  return (int64_t)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j);
}

#define TEN(X, n)                                                                                  \
  X(n##0), X(n##1), X(n##2), X(n##3), X(n##4), X(n##5), X(n##6), X(n##7), X(n##8), X(n##9)
#define HUNDRED(X, n)                                                                              \
  TEN(X, n##0), TEN(X, n##1), TEN(X, n##2), TEN(X, n##3), TEN(X, n##4), TEN(X, n##5),              \
      TEN(X, n##6), TEN(X, n##7), TEN(X, n##8), TEN(X, n##9)
#define PARAMETER(n) uint64_t a##n
#define NAME(n) a##n
#define PAIR(n) int32_t i##n, double d##n
#define INTEGER(n) i##n
#define REAL(n) d##n

uint64_t three_hundred(HUNDRED(PARAMETER, 1), HUNDRED(PARAMETER, 2), HUNDRED(PARAMETER, 3)) {
  const uint64_t all[] = {HUNDRED(NAME, 1), HUNDRED(NAME, 2), HUNDRED(NAME, 3)};
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 300; ++i)
    sum += (i + 1) * all[i];
  return sum;
}

int64_t two_hundred_in_pairs(HUNDRED(PAIR, 1)) {
  const int32_t integers[] = {HUNDRED(INTEGER, 1)};
  const double reals[] = {HUNDRED(REAL, 1)};
  int64_t sum = 0;
  for (int i = 0; i < 100; ++i)
    sum += (i + 1) * (integers[i] + 1000 * (int64_t)reals[i]);
  return sum;
}

/* --- pointers to copies ----------------------------------------------------------------------- */

struct three_words {
  int64_t a, b, c;
};

int64_t sum_of_structure(struct three_words s) { return s.a + s.b + s.c; }

struct three_words make_structure(int64_t a) {
  const struct three_words made = {a, a, a};
  return made;
}

long double largest(long double a) { return a; }

/* A structure of one word, which is passed like a word. */
struct one_word {
  int32_t low, high;
};

int64_t high_of(struct one_word w) { return w.high; }

struct particle {
  double place[3];
  float charge;
  int32_t number;
};

/* Moves the particle, and returns its number. */
int64_t move_particle(struct particle* p, double by) {
  for (int i = 0; i < 3; ++i)
    p->place[i] += by;
  p->charge = -p->charge;
  return p->number;
}

/* Stack arguments between values: out[i] = in[i] * factor; both[i] += shift. */
int64_t stack_and_values(const int32_t* in, double factor, double* out, int64_t n, float shift,
                         float* both, int8_t last) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = in[i] * factor;
    both[i] += shift;
  }
  return last;
}

/* Adds to each of ten words its number. */
uint64_t ten_words(uint64_t* a, uint64_t* b, uint64_t* c, uint64_t* d, uint64_t* e, uint64_t* f,
                   uint64_t* g, uint64_t* h, uint64_t* i, uint64_t* j) {
  uint64_t* const all[] = {a, b, c, d, e, f, g, h, i, j};
  for (uint64_t n = 0; n < 10; ++n)
    *all[n] += n;
  return 10;
}
