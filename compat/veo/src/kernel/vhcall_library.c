/* Libraries of host functions, in whichever process is the host. */
#include "vhcall_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int64_t vhcall_library_install(const char* path) {
  if (strlen(path) >= PATH_MAX) {
    return -ENAMETOOLONG;
  }
  void* library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  if (library != NULL) {
    return (int64_t)(intptr_t)library;
  }
  /* dlopen says in words why, and there is only a number to return. */
  const char* text = dlerror();
  if (strchr(path, '/') != NULL && access(path, R_OK) != 0) {
    return -errno;
  }
  if (strchr(path, '/') == NULL) {
    return -ENOENT;
  }
  (void)fprintf(stderr, "vhcall_install: %s\n", text);
  return -ENOEXEC;
}

int64_t vhcall_library_find(vhcall_handle library, const char* symbol) {
  void* function = dlsym((void*)(uintptr_t)library, symbol);
  return function == NULL ? -EINVAL : (int64_t)(intptr_t)function;
}

int vhcall_library_uninstall(vhcall_handle library) {
  return dlclose((void*)(uintptr_t)library) == 0 ? 0 : -EINVAL;
}
