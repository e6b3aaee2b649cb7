/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that get tagged addresses. */
#include <stdint.h>

#include <veo_hmem.h>

uint64_t get_tag(void* p) { return (uint64_t)(uintptr_t)p >> 59; }

/* Strips the tag, as kernels should. */
uint64_t sum_without_tag(void* p, uint64_t n) {
  const uint64_t* words = (const uint64_t*)veo_get_hmem_addr(p);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i)
    sum += words[i];
  return sum;
}

/* Uses tagged addresses directly, which the card allowed. */
uint64_t sum_with_tag(const uint64_t* p, uint64_t n) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i)
    sum += p[i];
  return sum;
}

uint64_t fill_with_tag(uint64_t* p, uint64_t n, uint64_t first) {
  for (uint64_t i = 0; i < n; ++i)
    p[i] = first + i;
  return n;
}

/* Uses tagged addresses of several types in several registers at once. */
double mix_with_tags(const double* a, const float* b, const uint8_t* c, int32_t* d, uint64_t n) {
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) {
    sum += a[i] * b[i] + c[i];
    d[i] = (int32_t)sum;
  }
  return sum;
}

int64_t is_tagged(const void* p) { return veo_is_ve_addr(p); }
int64_t identifier(const void* p) { return veo_get_proc_identifier_from_hmem(p); }
int64_t max_identifiers(void) { return veo_get_max_proc_identifier(); }
