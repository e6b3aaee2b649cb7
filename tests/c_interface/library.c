// SPDX-License-Identifier: Apache-2.0

// Tests of calls of functions of a shared library, which is named on the command line: the header
// compiles as C, and values and buffers have their members.
#include "check.h"

#include <farcall/c/library.h>

#include <errno.h>

static void call_with_values(fc_node target, fc_library library) {
  fc_native multiply, fail_with;
  fc_value result;
  const fc_value factors[] = {{.d = 6}, {.d = 7}};
  NEED(fc_symbol(library, "multiply", "d(dd)", &multiply) == FC_OK);
  CHECK(fc_native_call(target, multiply, factors, &result) == FC_OK && result.d == 42);
  const fc_value number = {.i = ENOENT};
  NEED(fc_symbol(library, "fail_with", "i(i)", &fail_with) == FC_OK);
  CHECK(fc_native_call(target, fail_with, &number, &result) == FC_OK && result.i == -1);
  CHECK(fc_native_errno() == ENOENT);
}

static void call_with_buffers(fc_node target, fc_library library) {
  fc_native join;
  fc_value result;
  char joined[16];
  size_t uses = 0;
  const fc_value arguments[] = {{.b = '+'},
                                {.s = {"one", 3}},
                                {.s = {"two", 3}},
                                {.o = {joined, sizeof joined}},
                                {.x = {&uses, sizeof uses}},
                                {.d = 2.5}};
  NEED(fc_symbol(library, "join", "i(bssoxd)", &join) == FC_OK);
  CHECK(fc_native_call(target, join, arguments, &result) == FC_OK && result.i == 2);
  CHECK(strcmp(joined, "one+two") == 0 && uses == 1);
  fc_future* future = NULL;
  NEED(fc_native_call_async(target, join, arguments, &future) == FC_OK);
  CHECK(fc_native_get(future, join, arguments, NULL) == FC_OK && uses == 2);
  fc_future_drop(future);
}

int main(int argc, char** argv) {
  fc_job* job = NULL;
  fc_node target;
  fc_library library;
  NEED(argc > 1 && fc_job_start(&argc, argv, NULL, &job) == FC_OK);
  NEED(fc_node_at(job, 1, &target) == FC_OK);
  NEED(fc_library_load(target, argv[1], &library) == FC_OK);
  call_with_values(target, library);
  call_with_buffers(target, library);
  CHECK(fc_library_unload(library) == FC_OK);
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "unloaded", fc_library_unload(library));
  fc_job_end(job);
  return failures != 0;
}
