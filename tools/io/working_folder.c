// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <farcall/files/io_socket.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A working folder at the host is known to this library only. For the system the working folder is
 * one that was removed, so that a relative path that only the system sees finds and makes no
 * file. Other programs inherit a descriptor that
 * describes the working folder. The program itself does not see this descriptor. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* path; /* as the host has opened it, or null if the folder is the system's */
static _Atomic(uint64_t) number_at_host;
static _Atomic(int) placeholder = -1;

DECLARE_REAL(chdir);
DECLARE_REAL(fchdir);
DECLARE_REAL(getcwd);
DECLARE_REAL(mkdir);
DECLARE_REAL(mkdtemp);
DECLARE_REAL(rmdir);
DECLARE_REAL(close);
DECLARE_REAL(fcntl);

/* True while the system's working folder is one that was removed. */
static _Atomic(int) is_nowhere;

void working_folder_after_fork(void) { mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

int working_folder_descriptor(void) {
  return atomic_load_explicit(&placeholder, memory_order_relaxed);
}

static void set(int fd, uint64_t number, char* name) {
  lock(&mutex);
  char* const old = path;
  path = name;
  atomic_store(&number_at_host, number);
  const int before = atomic_exchange(&placeholder, fd);
  unlock(&mutex);
  drop_text(old);
  if (before >= 0) REAL(close)(before);
}

void leave_working_folder(void) {
  atomic_store(&is_nowhere, 0);
  if (working_folder_descriptor() >= 0) set(-1, 0, NULL);
}

void adopt_working_folder(int fd, uint64_t number, const char* name) {
  char* const copy = copy_text(name);
  if (copy == NULL) return;
  set(fd, number, copy);
  atomic_store(&is_nowhere, 1);
}

/* Returns a copy of the descriptor that other programs inherit, with a high number if possible.
 * Returns -1 with errno on an error. */
static int inherited_copy(int fd) {
  const int higher = REAL(fcntl)(fd, F_DUPFD, first_own_descriptor);
  return higher >= 0 ? higher : REAL(fcntl)(fd, F_DUPFD, 3);
}

void move_working_folder(void) {
  lock(&mutex);
  const int before = placeholder;
  if (before >= 0) atomic_store(&placeholder, inherited_copy(before));
  unlock(&mutex);
  if (before >= 0) REAL(close)(before);
}

/* Number of nested folders that are removed. Paths such as "../../x" stay within them. */
enum { nested = 16 };

/* Makes a folder with nested ones in the folder `in`, enters the innermost, and removes all of
 * them. Returns 0 if this is not possible. */
static int enter_removed(const char* in) {
  SPACE(space);
  char* const path = in[0] == '/' ? reserve(&space, strlen(in) + 20 + 2 * nested) : NULL;
  if (path == NULL) return 0;
  strcpy(path, in);
  strcat(path, "/farcall-XXXXXX");
  if (REAL(mkdtemp)(path) == NULL) return 0;
  const size_t bytes = strlen(path);
  int depth = 0;
  for (; depth < nested; ++depth) {
    strcat(path, "/d");
    if (REAL(mkdir)(path, 0700) != 0) break;
  }
  const int is_inside = depth == nested && REAL(chdir)(path) == 0;
  for (size_t end = strlen(path); end >= bytes; end -= 2) {
    path[end] = '\0';
    (void)REAL(rmdir)(path);
  }
  return is_inside;
}

/* Makes a folder that was removed the system's working folder, or "/" if none can be made. */
static int enter_nowhere(void) {
  const char* const chosen = getenv("TMPDIR");
  const char* const folders[] = {chosen != NULL ? chosen : "/tmp", "/tmp", "/var/tmp", "/dev/shm"};
  if (atomic_load(&is_nowhere)) return 0;
  const int why = errno;
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; ++i) {
    if (!enter_removed(folders[i])) continue;
    atomic_store(&is_nowhere, 1);
    errno = why;
    return 0;
  }
  errno = why;
  return REAL(chdir)("/");
}

int has_moved(const char* absolute, size_t bytes, uint64_t number) {
  SPACE(space);
  char* const folder = number != 0 ? reserve(&space, bytes + 1) : NULL;
  struct farcall_io_status open;
  struct farcall_io_status named;
  if (folder == NULL || host_fstat(number, &open) != 0) return 0;
  memcpy(folder, absolute, bytes);
  folder[bytes] = '\0';
  begins_at(folder, 0);
  return host_stat(folder, 1, &named) != 0 || named.device != open.device ||
         named.inode != open.inode;
}

/* Makes a folder of the host the working folder. If the path begins with the path of an open
 * folder, `bytes` and `number` are its length and the folder's number. A folder that was renamed is
 * only found by its number, so the path is left as it is. */
static int enter_folder(const char* absolute, size_t bytes, uint64_t number) {
  SPACE(space);
  char* const found = reserve(&space, PATH_MAX);
  if (found == NULL) return -1;
  const int is_moved = has_moved(absolute, bytes, number);
  if (!is_moved && resolve_hosts(absolute, found) != 0) return -1;
  const char* const asked = is_moved ? absolute : found;
  begins_at(asked, is_moved ? number : 0);
  struct farcall_io_opened opened = {0, 0, -1};
  const int flags = O_RDONLY | O_DIRECTORY | FARCALL_IO_WORKING_FOLDER;
  if (forwarded(counted_chdir, host_open(asked, flags, 0, &opened)) < 0) return -1;
  const int kept = inherited_copy(opened.descriptor);
  char* const name = kept >= 0 ? copy_text(asked) : NULL;
  const int why = errno;
  REAL(close)(opened.descriptor);
  if (name == NULL) {
    if (kept >= 0) REAL(close)(kept);
    errno = why;
    return -1;
  }
  set(kept, opened.file, name);
  return enter_nowhere();
}

EXPORT int chdir(const char* to) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, to, &space, counted_chdir);
  if (absolute != NULL) {
    const uint64_t number = folder_of(absolute);
    /* A path that begins at the working folder is this folder's path, a slash, and `to`. */
    const size_t bytes = number != 0 ? strlen(absolute) - strlen(to) - 1 : 0;
    return enter_folder(absolute, bytes, number);
  }
  const int result = REAL(chdir)(to);
  if (result == 0) leave_working_folder();
  return result;
}

/* Makes an open folder of the host the working folder. */
static int enter_open(const struct file* f) {
  if (f->path == NULL) {
    errno = ENOTDIR;
    return -1;
  }
  /* The host follows a path that goes on behind the folder's own. */
  SPACE(space);
  const size_t bytes = strlen(f->path);
  char* const within = reserve(&space, bytes + 3);
  if (within == NULL) return -1;
  strcpy(within, f->path);
  strcat(within, "/.");
  return enter_folder(within, bytes, f->number);
}

EXPORT int fchdir(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    const int result = REAL(fchdir)(fd);
    if (result == 0) leave_working_folder();
    return result;
  }
  return (int)done_with(f, enter_open(f));
}

uint64_t working_folder_number(void) { return atomic_load(&number_at_host); }

size_t copy_working_folder(char* to, size_t space) {
  if (working_folder_descriptor() < 0) return 0;
  lock(&mutex);
  const size_t bytes = path != NULL ? strlen(path) : 0;
  if (bytes > 0 && bytes < space) memcpy(to, path, bytes + 1);
  unlock(&mutex);
  return bytes;
}

/* Returns the path of the working folder for the program. Returns null if the working folder is the
 * system's, or if there is no memory. */
static const char* shown_folder(struct space* kept) {
  /* The folder may change between the two calls. */
  for (size_t bytes = 0; (bytes = copy_working_folder(NULL, 0)) > 0;) {
    char* const name = reserve(kept, bytes + 1);
    if (name == NULL) return NULL;
    if (copy_working_folder(name, bytes + 1) != bytes) continue;
    simplify(name);
    return name;
  }
  return NULL;
}

EXPORT char* getcwd(char* to, size_t space) {
  SPACE(kept);
  const char* const name = shown_folder(&kept);
  if (name == NULL) return REAL(getcwd)(to, space);
  const size_t bytes = strlen(name) + 1;
  if (space < bytes && (to != NULL || space != 0)) {
    errno = to != NULL && space == 0 ? EINVAL : ERANGE;
    return NULL;
  }
  if (to == NULL) {
    to = malloc(space == 0 ? bytes : space);
    if (to == NULL) return NULL;
  } else if (!is_space(to, bytes)) {
    return NULL;
  }
  return memcpy(to, name, bytes);
}
EXPORT char* get_current_dir_name(void) { return getcwd(NULL, 0); }
EXPORT char* __getcwd_chk(char* to, size_t space, size_t there);
char* __getcwd_chk(char* to, size_t space, size_t there) {
  if (space > there) abort();
  return getcwd(to, space);
}

/* getwd() writes at most PATH_MAX bytes. */
static char* get_short(char* to, size_t space) {
  SPACE(kept);
  char* const name = reserve(&kept, PATH_MAX);
  if (name == NULL || getcwd(name, PATH_MAX) == NULL) return NULL;
  if (strlen(name) >= space) abort();
  return strcpy(to, name);
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of getwd() */
EXPORT char* getwd(char* to) { return get_short(to, SIZE_MAX); }
#pragma GCC diagnostic pop
EXPORT char* __getwd_chk(char* to, size_t there);
char* __getwd_chk(char* to, size_t there) { return get_short(to, there); }
