/* SPDX-License-Identifier: Apache-2.0 */

/* A library of host functions for vhcall.c. */
#include <libvepseudo.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

long add_one(veos_handle* handle, const void* in, size_t in_size, void* out, size_t out_size) {
  const unsigned char* from = in;
  unsigned char* to = out;
  for (size_t i = 0; i < out_size; ++i) {
    if (to[i] != 0) {
      return -1;
    }
    to[i] = (unsigned char)(i < in_size ? from[i] + 1 : 0xee);
  }
  /* Writing is allowed, because `in` is a copy of the kernel's memory. */
  memset((void*)in, 0x55, in_size);
  return handle == NULL ? -2 : (long)(1000 * in_size + out_size);
}

long no_buffers(veos_handle* handle, const void* in, size_t in_size, void* out, size_t out_size) {
  return handle != NULL && in == NULL && in_size == 0 && out == NULL && out_size == 0 ? 77 : 0;
}

long error_22(void) { return -22; }
long error_4095(void) { return -4095; }
long not_an_error(void) { return -4096; }

/* Returns the number of the first argument that differs from vhcall.c's; 0 if there is none. */
uint64_t narrow(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g,
                uint64_t h) {
  return a != -8                             ? 1
         : b != 200                          ? 2
         : c != -1600                        ? 3
         : d != 60000                        ? 4
         : e != -320000                      ? 5
         : f != 4000000000U                  ? 6
         : g != -64                          ? 7
         : h != UINT64_C(0xf00000000000000f) ? 8
                                             : 0;
}

/* Takes more integers and doubles than there are registers, alternating: each class fills its
 * registers first, then the stack. */
uint64_t mixed(int64_t i0, double d0, int64_t i1, double d1, int64_t i2, double d2, int64_t i3,
               float d3, int64_t i4, double d4, int64_t i5, double d5, int64_t i6, double d6,
               int64_t i7, double d7, int64_t i8, float d8, int64_t i9, double d9) {
  const int64_t integers[] = {i0, i1, i2, i3, i4, i5, i6, i7, i8, i9};
  const double doubles[] = {d0, d1, d2, d3, d4, d5, d6, d7, d8, d9};
  for (int i = 0; i < 10; ++i) {
    if (integers[i] != 100 + i) {
      return (uint64_t)(2 * i + 1);
    }
    if (doubles[i] != 0.5 + i) {
      return (uint64_t)(2 * i + 2);
    }
  }
  return 0;
}

/* Takes six doubles in registers, then complex numbers: two registers are left for the first. */
uint64_t complexes(double d0, _Complex float f0, double d1, double d2, double d3, double d4,
                   _Complex double c0, _Complex double c1, double d5, _Complex float f1, int i0) {
  return d0 != 1.0                                 ? 1
         : __real__ f0 != 2 || __imag__ f0 != -2   ? 2
         : d1 != 3.0                               ? 3
         : d2 != 4.0                               ? 4
         : d3 != 5.0                               ? 5
         : d4 != 6.0                               ? 6
         : __real__ c0 != 7 || __imag__ c0 != -7   ? 7
         : __real__ c1 != 8 || __imag__ c1 != -8   ? 8
         : d5 != 9.0                               ? 9
         : __real__ f1 != 10 || __imag__ f1 != -10 ? 10
         : i0 != 11                                ? 11
                                                   : 0;
}

/* One register is left, which is not enough for a complex number; the next double may get it. */
uint64_t one_register_left(double d0, double d1, double d2, double d3, double d4, double d5,
                           double d6, _Complex double c0, double d7) {
  const double doubles[] = {d0, d1, d2, d3, d4, d5, d6, __real__ c0, __imag__ c0, d7};
  for (int i = 0; i < 10; ++i) {
    if (doubles[i] != 0.25 + i) {
      return (uint64_t)(i + 1);
    }
  }
  return 0;
}

/* Returns the sum of the arguments, then changes them all. */
uint64_t intents(int* in, int* inout, int* out) {
  const int sum = in[0] + 10 * inout[0] + 100 * out[0];
  in[0] = 71;
  inout[0] = 72;
  out[0] = 73;
  return (uint64_t)sum;
}

uint64_t is_null(const void* memory) { return memory == NULL; }

uint64_t through_handle(uint64_t address, veos_handle* handle) {
  uint64_t word = 0;
  veos_handle* copy = veos_handle_copy(handle);
  int result = ve_recv_data(handle, address, sizeof word, &word);
  word += 1;
  result += ve_send_data_tid(copy, address, sizeof word, &word, 0);
  result += ve_recv_data_tid(copy, address + sizeof word, sizeof word, &word, 0);
  word += 2;
  result += ve_send_data(copy, address + sizeof word, sizeof word, &word);
  veos_handle_free(copy);
  veos_handle_free(handle);
  return result == 0 ? 0 : 1;
}

/* Returns the errno of reading unmapped memory. */
uint64_t nothing_there(veos_handle* handle) {
  uint64_t word = 0;
  errno = 0;
  return ve_recv_data(handle, 8, sizeof word, &word) == -1 ? (uint64_t)errno : 0;
}

/* vhcall_invoke_with_args() takes no result for an error, also no large one. */
uint64_t all_ones(void) { return UINT64_MAX; }

long process_id(void) { return getpid(); }
