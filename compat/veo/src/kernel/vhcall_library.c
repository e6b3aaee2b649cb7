/* Libraries of host functions, in whichever process is the host. */
#include "vhcall_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Those that are installed: the loader crashes on a handle that is none of its own. */
struct installed {
  void* library;
  unsigned times;
  struct installed* next;
};
static struct installed* all_installed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Where the entry of a library is linked, or would be; with the mutex held. */
static struct installed** place_of(const void* library) {
  struct installed** place = &all_installed;
  while (*place != NULL && (*place)->library != library) {
    place = &(*place)->next;
  }
  return place;
}

/* False without memory. */
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

/* False when it is not installed. */
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
  void* opened = (void*)(uintptr_t)library;
  void* function = is_installed(opened) ? dlsym(opened, symbol) : NULL;
  return function == NULL ? -EINVAL : (int64_t)(intptr_t)function;
}

int vhcall_library_uninstall(vhcall_handle library) {
  void* opened = (void*)(uintptr_t)library;
  return forget(opened) && dlclose(opened) == 0 ? 0 : -EINVAL;
}
