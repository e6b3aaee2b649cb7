// SPDX-License-Identifier: Apache-2.0

/* A program for NEC's Vector Engine, as it stands: memory on the other side, and a kernel called by
 * name. Runs with: program [path of libkernel.so] */
#include <farcall_veo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ve_offload.h>

enum { N = 1000 };

static void require(int good, const char* what) {
  if (!good) {
    /* farcall_veo_last_error() exists only in farcall's libveo. */
    fprintf(stderr, "%s: %s\n", what, farcall_veo_last_error());
    exit(1);
  }
}

int main(int argc, char** argv) {
  static double values[N];
  for (int i = 0; i < N; ++i) {
    values[i] = i;
  }

  struct veo_proc_handle* process = veo_proc_create(0);
  require(process != NULL, "veo_proc_create");
  uint64_t library = veo_load_library(process, argc > 1 ? argv[1] : "./libkernel.so");
  require(library != 0, "veo_load_library");
  struct veo_thr_ctxt* context = veo_context_open(process);
  require(context != NULL, "veo_context_open");

  uint64_t there = 0;
  require(veo_alloc_mem(process, &there, sizeof values) == 0, "veo_alloc_mem");
  require(veo_write_mem(process, there, values, sizeof values) == 0, "veo_write_mem");

  struct veo_args* arguments = veo_args_alloc();
  veo_args_set_u64(arguments, 0, there);
  veo_args_set_i64(arguments, 1, N);
  veo_args_set_double(arguments, 2, 0.5);
  uint64_t request = veo_call_async_by_name(context, library, "weighted_sum", arguments);
  require(request != VEO_REQUEST_ID_INVALID, "veo_call_async_by_name");
  uint64_t word = 0;
  require(veo_call_wait_result(context, request, &word) == VEO_COMMAND_OK, "weighted_sum");
  double sum = 0;
  memcpy(&sum, &word, sizeof sum); /* a register holds either kind of number */
  printf("%g\n", sum);

  veo_args_free(arguments);
  veo_free_mem(process, there);
  veo_context_close(context);
  veo_proc_destroy(process);
  return sum == N * (N - 1) / 4.0 ? 0 : 1;
}
