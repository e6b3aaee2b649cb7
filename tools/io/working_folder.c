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
static char* path; /* null: the system's */
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
  free(old);
  if (before >= 0) REAL(close)(before);
}

void leave_working_folder(void) {
  atomic_store(&is_nowhere, 0);
  if (working_folder_descriptor() >= 0) set(-1, 0, NULL);
}

void adopt_working_folder(int fd, uint64_t number, const char* name) {
  char* const copy = strdup(name);
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

static int enter_folder(const char* absolute) {
  SPACE(space);
  char* const found = reserve(&space, PATH_MAX);
  if (found == NULL || resolve_hosts(absolute, found) != 0) return -1;
  struct farcall_io_opened opened = {0, 0, -1};
  const int flags = O_RDONLY | O_DIRECTORY | FARCALL_IO_WORKING_FOLDER;
  if (forwarded(counted_chdir, host_open(found, flags, 0, &opened)) < 0) return -1;
  const int kept = inherited_copy(opened.descriptor);
  char* const name = kept >= 0 ? strdup(found) : NULL;
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
  if (absolute != NULL) return enter_folder(absolute);
  const int result = REAL(chdir)(to);
  if (result == 0) leave_working_folder();
  return result;
}

EXPORT int fchdir(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) {
    const int result = REAL(fchdir)(fd);
    if (result == 0) leave_working_folder();
    return result;
  }
  errno = ENOTDIR;
  const int result = f->path != NULL ? enter_folder(f->path) : -1;
  return (int)done_with(f, result);
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

EXPORT char* getcwd(char* to, size_t space) {
  /* The folder may change between the two calls. */
  for (size_t bytes = 0; (bytes = copy_working_folder(NULL, 0)) > 0;) {
    char* made = NULL;
    if (to == NULL && (space == 0 || space > bytes)) {
      made = malloc(space == 0 ? bytes + 1 : space);
      if (made == NULL) return NULL;
    } else if (space <= bytes) {
      errno = to != NULL && space == 0 ? EINVAL : ERANGE;
      return NULL;
    }
    if (copy_working_folder(made != NULL ? made : to, bytes + 1) == bytes)
      return made != NULL ? made : to;
    free(made);
  }
  return REAL(getcwd)(to, space);
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
