/* SPDX-License-Identifier: Apache-2.0 */

/* Manages the libraries of host functions in the process that is the VHcall host. */
#include "vhcall_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entry of the list of libraries that vhcall_library_install() has loaded. Handles are checked
 * against this list, because the loader crashes if it gets an invalid handle. */
struct installed {
  void* library;
  unsigned times;
  struct installed* next;
};
static struct installed* all_installed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Returns the address of the link that points to a library's entry in the list. If the library has
 * no entry, returns the address of the last link, which is null. The caller holds the mutex. */
static struct installed** place_of(const void* library) {
  struct installed** place = &all_installed;
  while (*place != NULL && (*place)->library != library) {
    place = &(*place)->next;
  }
  return place;
}

/* Adds a library to the list, or increments its count if it is already in the list. Returns false
 * if there is no memory. */
static int remember(void* library) {
  pthread_mutex_lock(&mutex);
  struct installed** place = place_of(library);
  if (*place == NULL) {
    *place = calloc(1, sizeof **place);
    if (*place != NULL) {
      (*place)->library = library;
    }
  }
  const int is_there = *place != NULL;
  if (is_there) {
    ++(*place)->times;
  }
  pthread_mutex_unlock(&mutex);
  return is_there;
}

static int is_installed(const void* library) {
  pthread_mutex_lock(&mutex);
  const int is_there = *place_of(library) != NULL;
  pthread_mutex_unlock(&mutex);
  return is_there;
}

/* Decrements the count of a library, and removes its entry if the count is 0. Returns false if the
 * library is not in the list. */
static int forget(const void* library) {
  pthread_mutex_lock(&mutex);
  struct installed** place = place_of(library);
  struct installed* entry = *place;
  if (entry != NULL && --entry->times == 0) {
    *place = entry->next;
    free(entry);
  }
  pthread_mutex_unlock(&mutex);
  return entry != NULL;
}

int64_t vhcall_library_install(const char* path) {
  if (strlen(path) >= PATH_MAX) {
    return -ENAMETOOLONG;
  }
  void* library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  if (library != NULL) {
    if (remember(library)) {
      return (int64_t)(intptr_t)library;
    }
    dlclose(library);
    return -ENOMEM;
  }
  /* Find an errno for the failure, because dlerror() returns only a text. */
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
  void* opened = (void*)(uintptr_t)library;
  void* function = is_installed(opened) ? dlsym(opened, symbol) : NULL;
  return function == NULL ? -EINVAL : (int64_t)(intptr_t)function;
}

int vhcall_library_uninstall(vhcall_handle library) {
  void* opened = (void*)(uintptr_t)library;
  return forget(opened) && dlclose(opened) == 0 ? 0 : -EINVAL;
}
