/* SPDX-License-Identifier: Apache-2.0 */

/* Loads a kernel library, calls `kernel` in it, prints the result, and unloads it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  int (*kernel)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "kernel");
  if (kernel == NULL) {
    fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: load <library>");
    return 1;
  }
  printf("%d\n", kernel());
  dlclose(library);
  return 0;
}
