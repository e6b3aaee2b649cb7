/* SPDX-License-Identifier: Apache-2.0 */

/* Tests VHcall with the process itself as the host. The argument is the library of host functions.
 */
#include <libvhcall.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int64_t function(vhcall_handle library, const char* name) {
  const int64_t symbol = vhcall_find(library, name);
  CHECK(symbol != -1 && symbol != 0);
  return symbol;
}

static void find_and_fail(const char* path) {
  char text[2000];

  errno = 0;
  CHECK(vhcall_install(NULL) == (vhcall_handle)-1 && errno == EFAULT);
  CHECK(vhcall_install("./no/such/library.so") == (vhcall_handle)-1 && errno == ENOENT);
  CHECK(vhcall_install("libno_such_library.so") == (vhcall_handle)-1 && errno == ENOENT);
  CHECK(vhcall_install("/dev/null") == (vhcall_handle)-1 && errno == ENOEXEC);

  const vhcall_handle library = vhcall_install(path);
  CHECK(library != (vhcall_handle)-1);
  CHECK(vhcall_find(library, "no_such_function") == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_find((vhcall_handle)-1, "add_one") == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_find(library, NULL) == -1 && errno == EINVAL);
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  errno = 0;
  CHECK(vhcall_find(library, text) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_find(12345, "add_one") == -1 && errno == EINVAL);
  CHECK(vhcall_uninstall(library) == 0);
  errno = 0;
  CHECK(vhcall_uninstall(12345) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_uninstall((vhcall_handle)-1) == -1 && errno == EINVAL);
}

static void buffers(vhcall_handle library) {
  const int64_t add_one = function(library, "add_one");
  unsigned char in[3] = {1, 2, 255};
  unsigned char out[5] = {9, 9, 9, 9, 9};

  CHECK(vhcall_invoke(add_one, in, 3, out, 4) == 3004);
  CHECK(out[0] == 2 && out[1] == 3 && out[2] == 0 && out[3] == 0xee && out[4] == 9);
  CHECK(in[0] == 1 && in[1] == 2 && in[2] == 255);
  CHECK(vhcall_invoke(function(library, "no_buffers"), NULL, 0, NULL, 0) == 77);

  errno = 0;
  CHECK(vhcall_invoke(add_one, NULL, 3, out, 4) == -1 && errno == EFAULT);
  errno = 0;
  CHECK(vhcall_invoke(add_one, in, 3, NULL, 4) == -1 && errno == EFAULT);
  errno = 0;
  CHECK(vhcall_invoke(add_one, (void*)8, 3, out, 4) == -1 && errno == EFAULT);
  errno = 0;
  CHECK(vhcall_invoke(-1, in, 3, out, 4) == -1 && errno == EINVAL);

  errno = 0;
  CHECK(vhcall_invoke(function(library, "error_22"), NULL, 0, NULL, 0) == -1 && errno == 22);
  errno = 0;
  CHECK(vhcall_invoke(function(library, "error_4095"), NULL, 0, NULL, 0) == -1 && errno == 4095);
  errno = 0;
  CHECK(vhcall_invoke(function(library, "not_an_error"), NULL, 0, NULL, 0) == -4096 && errno == 0);
}

static uint64_t call(vhcall_handle library, const char* name, vhcall_args* args) {
  uint64_t result = 12345;
  CHECK(vhcall_invoke_with_args(function(library, name), args, &result) == 0);
  return result;
}

static void numbers(vhcall_handle library) {
  vhcall_args* args = vhcall_args_alloc();
  CHECK(vhcall_args_set_i8(args, 0, -8) == 0);
  CHECK(vhcall_args_set_u8(args, 1, 200) == 0);
  CHECK(vhcall_args_set_i16(args, 2, -1600) == 0);
  CHECK(vhcall_args_set_u16(args, 3, 60000) == 0);
  CHECK(vhcall_args_set_i32(args, 4, -320000) == 0);
  CHECK(vhcall_args_set_u32(args, 5, 4000000000U) == 0);
  CHECK(vhcall_args_set_i64(args, 6, -64) == 0);
  CHECK(vhcall_args_set_u64(args, 7, UINT64_C(0xf00000000000000f)) == 0);
  CHECK(call(library, "narrow", args) == 0);
  vhcall_args_clear(args);

  /* Set from the last to the first: numbers give the order. */
  for (int i = 9; i >= 0; --i) {
    CHECK(vhcall_args_set_i64(args, 2 * i, 100 + i) == 0);
    if (i == 3 || i == 8) {
      CHECK(vhcall_args_set_float(args, 2 * i + 1, 0.5F + (float)i) == 0);
    } else {
      CHECK(vhcall_args_set_double(args, 2 * i + 1, 0.5 + i) == 0);
    }
  }
  CHECK(call(library, "mixed", args) == 0);
  /* A later value replaces it. */
  CHECK(vhcall_args_set_i64(args, 18, -1) == 0);
  CHECK(call(library, "mixed", args) == 19);
  vhcall_args_clear(args);

  vhcall_args_set_double(args, 0, 1);
  vhcall_args_set_complex_float(args, 1, 2.0F - 2.0F * 1.0iF);
  for (int i = 2; i < 6; ++i) {
    vhcall_args_set_double(args, i, i + 1);
  }
  vhcall_args_set_complex_double(args, 6, 7.0 - 7.0 * 1.0i);
  vhcall_args_set_complex_double(args, 7, 8.0 - 8.0 * 1.0i);
  vhcall_args_set_double(args, 8, 9);
  vhcall_args_set_complex_float(args, 9, 10.0F - 10.0F * 1.0iF);
  vhcall_args_set_i32(args, 10, 11);
  CHECK(call(library, "complexes", args) == 0);
  vhcall_args_clear(args);

  for (int i = 0; i < 7; ++i) {
    vhcall_args_set_double(args, i, 0.25 + i);
  }
  vhcall_args_set_complex_double(args, 7, 7.25 + 8.25 * 1.0i);
  vhcall_args_set_double(args, 8, 9.25);
  CHECK(call(library, "one_register_left", args) == 0);
  vhcall_args_clear(args);
  CHECK(call(library, "all_ones", args) == UINT64_MAX);
  vhcall_args_free(args);
}

static void memory(vhcall_handle library) {
  int in = 1;
  int inout = 2;
  int out = 3;
  uint64_t words[2] = {40, 50};
  vhcall_args* args = vhcall_args_alloc();

  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_IN, 0, &in, sizeof in) == 0);
  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_INOUT, 1, &inout, sizeof inout) == 0);
  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_OUT, 2, &out, sizeof out) == 0);
  /* 1 + 10 * 2: the memory of OUT arguments is not copied to the function. */
  CHECK(call(library, "intents", args) == 21);
  CHECK(in == 1 && inout == 72 && out == 73);
  vhcall_args_clear(args);

  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_IN, 0, NULL, 0) == 0);
  CHECK(call(library, "is_null", args) == 1);
  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_IN, 0, (void*)8, 4) == 0);
  uint64_t result = 0;
  errno = 0;
  CHECK(vhcall_invoke_with_args(function(library, "is_null"), args, &result) == -1);
  CHECK(errno == EFAULT);

  CHECK(vhcall_args_set_u64(args, 0, (uint64_t)(uintptr_t)words) == 0);
  CHECK(vhcall_args_set_veoshandle(args, 1) == 0);
  CHECK(call(library, "through_handle", args) == 0);
  CHECK(words[0] == 41 && words[1] == 52);
  /* An address with a tag, like veo_hmem.h's. */
  CHECK(vhcall_args_set_u64(args, 0, (uint64_t)(uintptr_t)words | UINT64_C(3) << 62) == 0);
  CHECK(call(library, "through_handle", args) == 0);
  CHECK(words[0] == 42 && words[1] == 54);
  vhcall_args_clear(args);

  CHECK(vhcall_args_set_veoshandle(args, 0) == 0);
  CHECK(call(library, "nothing_there", args) == EFAULT);
  vhcall_args_free(args);
}

static void wrong_arguments(vhcall_handle library) {
  const int64_t all_ones = function(library, "all_ones");
  vhcall_args* args = vhcall_args_alloc();
  uint64_t result = 0;
  int word = 0;

  errno = 0;
  CHECK(vhcall_args_set_i32(args, -1, 0) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_args_set_i32(NULL, 0, 0) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_args_set_pointer(args, VHCALL_INTENT_IN, 0, NULL, 4) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(vhcall_args_set_pointer(args, (enum vhcall_args_intent)9, 0, &word, 4) == -1 &&
        errno == EINVAL);

  /* Argument 0 is missing, then it is set. */
  CHECK(vhcall_args_set_i32(args, 1, 5) == 0);
  errno = 0;
  CHECK(vhcall_invoke_with_args(all_ones, args, &result) == -1 && errno == EINVAL);
  CHECK(vhcall_args_set_i32(args, 0, 5) == 0);
  CHECK(vhcall_invoke_with_args(all_ones, args, NULL) == 0);
  errno = 0;
  CHECK(vhcall_invoke_with_args(all_ones, NULL, &result) == -1 && errno == EINVAL);
  vhcall_args_free(args);

  /* Arguments of vhcall_args_alloc_num() that are not set are 0. */
  args = vhcall_args_alloc_num(2);
  CHECK(vhcall_args_set_i32(args, 1, 5) == 0);
  CHECK(vhcall_invoke_with_args(function(library, "is_null"), args, &result) == 0 && result == 1);
  CHECK(vhcall_args_set_i32(args, 0, 5) == 0);
  CHECK(vhcall_invoke_with_args(function(library, "is_null"), args, &result) == 0 && result == 0);
  vhcall_args_clear(args);
  CHECK(vhcall_invoke_with_args(function(library, "is_null"), args, &result) == 0 && result == 1);
  vhcall_args_free(args);
  errno = 0;
  CHECK(vhcall_args_alloc_num(-1) == NULL && errno == EINVAL);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s <library of host functions>\n", argv[0]);
    return 2;
  }
  find_and_fail(argv[1]);
  const vhcall_handle library = vhcall_install(argv[1]);
  CHECK(library != (vhcall_handle)-1);
  buffers(library);
  numbers(library);
  memory(library);
  wrong_arguments(library);
  CHECK(vhcall_uninstall(library) == 0);
  return failures();
}
