/* SPDX-License-Identifier: Apache-2.0 */

/* Replaces the target program in libaveorun.a: looks up the names in its arguments, calls the
 * functions without arguments, and prints the results. */
#include <dlfcn.h>
#include <stdio.h>

int helper_of_main(void);

int main(int argc, char** argv) {
  int missing = helper_of_main();
  for (int i = 1; i < argc; ++i) {
    int (*kernel)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, argv[i]);
    if (kernel == NULL) {
      printf("%s is missing\n", argv[i]);
      ++missing;
    } else {
      printf("%s %d\n", argv[i], kernel());
    }
  }
  fflush(stdout);
  return missing;
}
