/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels for offload.c. vhcall.c is linked with them, as a function. */
#include <libvhcall.h>
#include <veo_hmem.h>

#include <stdint.h>
#include <unistd.h>

int vhcall_main(int argc, char** argv);

int64_t add(int64_t a, int64_t b) { return a + b; }

double half(double value) { return value / 2; }

int64_t sum_of(const int64_t* numbers, int64_t count) {
  const int64_t* here = veo_get_hmem_addr((void*)numbers);
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += here[i];
  }
  return sum;
}

int64_t process_id(void) { return getpid(); }

/* Returns the id of the process that functions of a host library run in. */
int64_t process_of_host_functions(const char* library) {
  const vhcall_handle functions = vhcall_install(library);
  const int64_t symbol = vhcall_find(functions, "process_id");
  return vhcall_invoke(symbol, NULL, 0, NULL, 0);
}

/* Returns the number of failed checks of vhcall.c. */
int64_t check_vhcall(const char* library) {
  char* arguments[] = {"vhcall", (char*)library, NULL};
  return vhcall_main(2, arguments);
}
