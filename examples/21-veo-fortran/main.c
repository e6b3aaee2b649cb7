// SPDX-License-Identifier: Apache-2.0

/* Calls a kernel in Fortran: its arguments go by address, so each is a stack argument.
 * Runs with: program [path of libkernel.so] */
#include <farcall_veo.h>
#include <math.h>
#include <stdio.h>
#include <ve_offload.h>

enum { N = 9 };

int main(int argc, char** argv) {
  double values[N] = {0, 0, 0, 0, 9, 0, 0, 0, 0};
  int n = N;
  int passes = 2;

  struct veo_proc_handle* process = veo_proc_create(0);
  uint64_t library =
      process == NULL ? 0 : veo_load_library(process, argc > 1 ? argv[1] : "./libkernel.so");
  uint64_t smooth = library == 0 ? 0 : veo_get_sym(process, library, "smooth");
  if (smooth == 0) {
    fprintf(stderr, "%s\n", farcall_veo_last_error());
    return 1;
  }
  struct veo_args* arguments = veo_args_alloc();
  veo_args_set_stack(arguments, VEO_INTENT_INOUT, 0, (char*)values, sizeof values);
  veo_args_set_stack(arguments, VEO_INTENT_IN, 1, (char*)&n, sizeof n);
  veo_args_set_stack(arguments, VEO_INTENT_IN, 2, (char*)&passes, sizeof passes);
  uint64_t nothing = 0;
  if (veo_call_sync(process, smooth, arguments, &nothing) != 0) {
    fprintf(stderr, "%s\n", farcall_veo_last_error());
    return 1;
  }
  veo_args_free(arguments);
  veo_proc_destroy(process);

  double sum = 0;
  for (int i = 0; i < N; ++i) {
    printf("%g ", values[i]);
    sum += values[i];
  }
  printf("\n");
  return fabs(sum - 9) < 1e-12 && fabs(values[4] - 3) < 1e-12 ? 0 : 1;
}
