/* SPDX-License-Identifier: Apache-2.0 */

/* Tests VHcall with a host that the program has set in place of its own process. */
#include <libvhcall.h>

#include <errno.h>
#include <string.h>

#include "../../../src/kernel/vhcall_host.h"
#include "check.h"

static int is_asked_for = 1;
static char buffer[4];

static int64_t install(const char* path) { return strcmp(path, "there.so") == 0 ? 7 : -ENOENT; }

static int64_t find(vhcall_handle library, const char* symbol) {
  return library == 7 && strcmp(symbol, "f") == 0 ? 8 : -EINVAL;
}

static int64_t invoke(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size) {
  CHECK(symbol == 8 && in == buffer && in_size == 4 && out == buffer + 1 && out_size == 2);
  return -EPIPE;
}

static int invoke_with_args(int64_t symbol, const vhcall_data* args, size_t count,
                            uint64_t* result) {
  CHECK(symbol == 8 && count == 3);
  CHECK(args[0].cl == VHCALL_CLASS_INT && args[0].val[0] == UINT64_MAX && args[0].size == 8);
  CHECK(args[1].cl == VHCALL_CLASS_PTR && args[1].inout == VHCALL_INTENT_OUT);
  CHECK(args[1].val[0] == (uintptr_t)buffer && args[1].size == 4);
  CHECK(args[2].cl == VHCALL_CLASS_DBL && args[2].size == 4);
  *result = 99;
  return 0;
}

static int uninstall(vhcall_handle library) { return library == 7 ? 0 : -EINVAL; }

const struct vhcall_host* farcall_vhcall_host(void) {
  static const struct vhcall_host host = {install, find, invoke, invoke_with_args, uninstall};
  return is_asked_for ? &host : NULL;
}

int main(void) {
  vhcall_args* args = vhcall_args_alloc();
  uint64_t result = 0;

  CHECK(vhcall_install("elsewhere.so") == (vhcall_handle)-1 && errno == ENOENT);
  CHECK(vhcall_install("there.so") == 7);
  CHECK(vhcall_find(7, "g") == -1 && errno == EINVAL);
  CHECK(vhcall_find(7, "f") == 8);
  CHECK(vhcall_invoke(8, buffer, 4, buffer + 1, 2) == -1 && errno == EPIPE);
  vhcall_args_set_i32(args, 0, -1);
  vhcall_args_set_pointer(args, VHCALL_INTENT_OUT, 1, buffer, 4);
  vhcall_args_set_float(args, 2, 1.0F);
  CHECK(vhcall_invoke_with_args(8, args, &result) == 0 && result == 99);
  CHECK(vhcall_uninstall(7) == 0);
  CHECK(vhcall_uninstall(6) == -1 && errno == EINVAL);

  /* The program may return to the default. */
  is_asked_for = 0;
  CHECK(vhcall_install("there.so") == (vhcall_handle)-1);
  vhcall_args_free(args);
  return failures();
}
