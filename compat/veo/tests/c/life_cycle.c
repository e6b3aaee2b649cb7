/* SPDX-License-Identifier: Apache-2.0 */

/* Life cycle of a process of kernels, in a program in C89. */
#include <urpc_time.h>
#include <ve_offload.h>
#include <veo_time.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static uint64_t here(void* argument) {
  ++*(int*)argument;
  return 31;
}

static const char* kernels(char* buffer, size_t size) {
  const char* folder = getenv("VEO_TEST_KERNELS");
  snprintf(buffer, size, "%s/libveo_basic.so", folder != NULL ? folder : VEO_TEST_KERNELS);
  return buffer;
}

int main(void) {
  struct veo_proc_handle* proc;
  struct veo_thr_ctxt* context;
  struct veo_args* arguments;
  struct veo_thr_ctxt_attr* attributes;
  uint64_t library, symbol, address, request, result;
  int32_t numbers[4], copy[4], called = 0, i;
  char file[4096];
  const long start = get_time_us_real();

  CHECK(veo_api_version() == VEO_API_VERSION);
  proc = veo_proc_create(-1);
  NEED(proc != NULL);
  library = veo_load_library(proc, kernels(file, sizeof file));
  NEED(library != 0);
  symbol = veo_get_sym(proc, library, "add");
  NEED(symbol != 0);

  arguments = veo_args_alloc();
  NEED(arguments != NULL);
  CHECK(veo_args_set_i64(arguments, 0, 40) == 0);
  CHECK(veo_args_set_i32(arguments, 1, 2) == 0);
  CHECK(veo_call_sync(proc, symbol, arguments, &result) == 0);
  CHECK(result == 42);

  attributes = veo_alloc_thr_ctxt_attr();
  NEED(attributes != NULL);
  CHECK(veo_set_thr_ctxt_stacksize(attributes, 64 * 1024 * 1024) == 0);
  context = veo_context_open(proc);
  NEED(context != NULL);
  context = veo_context_open_with_attr(proc, attributes);
  NEED(context != NULL);
  CHECK(veo_free_thr_ctxt_attr(attributes) == 0);
  CHECK(veo_num_contexts(proc) == 2);
  CHECK(veo_get_context(proc, 1) == context);

  for (i = 0; i < 4; ++i)
    numbers[i] = i + 1;
  CHECK(veo_alloc_mem(proc, &address, sizeof numbers) == 0);
  request = veo_async_write_mem(context, address, numbers, sizeof numbers);
  CHECK(veo_call_wait_result(context, request, &result) == VEO_COMMAND_OK);
  memset(copy, 0, sizeof copy);
  CHECK(veo_read_mem(proc, copy, address, sizeof copy) == 0);
  CHECK(memcmp(copy, numbers, sizeof copy) == 0);
  CHECK(veo_free_mem(proc, address) == 0);

  veo_args_clear(arguments);
  CHECK(veo_args_set_stack(arguments, VEO_INTENT_IN, 0, (char*)numbers, sizeof numbers) == 0);
  CHECK(veo_args_set_u64(arguments, 1, sizeof numbers) == 0);
  request = veo_call_async_by_name(context, library, "sum_bytes", arguments);
  CHECK(request != VEO_REQUEST_ID_INVALID);
  CHECK(veo_call_wait_result(context, request, &result) == VEO_COMMAND_OK);
  CHECK(result == 10);

  request = veo_call_async_vh(context, &here, &called);
  veo_context_sync(context);
  CHECK(veo_call_peek_result(context, request, &result) == VEO_COMMAND_OK);
  CHECK(result == 31);
  CHECK(called == 1);

  veo_args_free(arguments);
  CHECK(veo_context_close(context) == 0);
  CHECK(veo_unload_library(proc, library) == 0);
  CHECK(veo_proc_destroy(proc) == 0);
  CHECK(veo_proc_create(-7) == NULL);
  CHECK(strlen(farcall_veo_last_error()) > 0);
  CHECK(get_time_us_real() >= start);
  return failures != 0;
}
