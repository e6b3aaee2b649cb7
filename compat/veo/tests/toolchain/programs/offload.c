/* SPDX-License-Identifier: Apache-2.0 */

/* A whole program: offload (<kernel library> | -) [<library of host functions> (program | helper)]
 *
 * With -, the kernels are in the helper program itself. With the last two arguments, kernels call
 * functions of that library, which run in the named process. */
#include <farcall_veo.h>
#include <ve_offload.h>
#include <veo_hmem.h>

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static struct veo_proc_handle* process;
static uint64_t library;

static uint64_t call(const char* name, struct veo_args* arguments) {
  uint64_t result = 0;
  const uint64_t kernel = veo_get_sym(process, library, name);
  CHECK(kernel != 0);
  CHECK(veo_call_sync(process, kernel, arguments, &result) == VEO_COMMAND_OK);
  veo_args_free(arguments);
  return result;
}

static uint64_t call_with_text(const char* name, char* text) {
  struct veo_args* arguments = veo_args_alloc();
  CHECK(veo_args_set_stack(arguments, VEO_INTENT_IN, 0, text, strlen(text) + 1) == 0);
  return call(name, arguments);
}

static void numbers(void) {
  struct veo_args* arguments = veo_args_alloc();
  CHECK(veo_args_set_i64(arguments, 0, -40) == 0);
  CHECK(veo_args_set_i64(arguments, 1, 82) == 0);
  CHECK(call("add", arguments) == 42);

  double halved = 0;
  arguments = veo_args_alloc();
  CHECK(veo_args_set_double(arguments, 0, 5.0) == 0);
  const uint64_t word = call("half", arguments);
  memcpy(&halved, &word, sizeof halved);
  CHECK(halved == 2.5);
}

static void memory(void) {
  const int64_t values[] = {1, 20, 300};
  void* there = NULL;
  CHECK(veo_alloc_hmem(process, &there, sizeof values) == 0);
  CHECK(veo_hmemcpy(there, values, sizeof values) == 0);
  struct veo_args* arguments = veo_args_alloc();
  CHECK(veo_args_set_hmem(arguments, 0, there) == 0);
  CHECK(veo_args_set_i64(arguments, 1, 3) == 0);
  CHECK(call("sum_of", arguments) == 321);
  CHECK(veo_free_hmem(there) == 0);
}

static void host_functions(char* functions, const char* where) {
  const uint64_t helper = call("process_id", veo_args_alloc());
  const uint64_t here = (uint64_t)getpid();
  CHECK(helper != here);
  CHECK(call_with_text("process_of_host_functions", functions) ==
        (strcmp(where, "program") == 0 ? here : helper));
  CHECK(call_with_text("check_vhcall", functions) == 0);
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    return 2;
  }
  process = veo_proc_create(0);
  if (process == NULL) {
    fprintf(stderr, "%s\n", farcall_veo_last_error());
    return 1;
  }
  if (strcmp(argv[1], "-") != 0) {
    library = veo_load_library(process, argv[1]);
    CHECK(library != 0);
  }
  numbers();
  memory();
  if (argc == 4) {
    host_functions(argv[2], argv[3]);
  }
  CHECK(veo_get_sym(process, library, "no_such_kernel") == 0);
  CHECK(veo_proc_destroy(process) == 0);
  return failures();
}
