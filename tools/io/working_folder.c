#include "io.h"

#include <farcall/files/io_socket.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A working folder of the host's is one of this library only: for the system it is "/", where no
 * relative path finds anything by accident. Other programs inherit it as a descriptor, which says
 * so; the program itself does not see it. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* path; /* null: the system's */
static _Atomic(int) placeholder = -1;

DECLARE_REAL(chdir);
DECLARE_REAL(fchdir);
DECLARE_REAL(getcwd);
DECLARE_REAL(close);
DECLARE_REAL(fcntl);

void working_folder_after_fork(void) { mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

int working_folder_descriptor(void) {
  return atomic_load_explicit(&placeholder, memory_order_relaxed);
}

static void set(int fd, char* name) {
  pthread_mutex_lock(&mutex);
  char* const old = path;
  path = name;
  const int before = atomic_exchange(&placeholder, fd);
  pthread_mutex_unlock(&mutex);
  free(old);
  if (before >= 0) REAL(close)(before);
}

void leave_working_folder(void) {
  if (working_folder_descriptor() >= 0) set(-1, NULL);
}

void adopt_working_folder(int fd, const char* name) {
  char* const copy = strdup(name);
  if (copy != NULL) set(fd, copy);
}

/* Out of the way of programs. Not close-on-exec; -1 and errno. */
static int inherited_copy(int fd) {
  const int higher = REAL(fcntl)(fd, F_DUPFD, first_own_descriptor);
  return higher >= 0 ? higher : REAL(fcntl)(fd, F_DUPFD, 3);
}

void move_working_folder(void) {
  pthread_mutex_lock(&mutex);
  const int before = placeholder;
  if (before >= 0) atomic_store(&placeholder, inherited_copy(before));
  pthread_mutex_unlock(&mutex);
  if (before >= 0) REAL(close)(before);
}

static int enter_folder(const char* absolute) {
  char found[PATH_MAX];
  if (resolve_hosts(absolute, found) != 0) return -1;
  const struct farcall_io_table* const to = enter();
  if (to == NULL) return -1;
  struct farcall_io_opened opened = {0, 0, -1};
  const int64_t result =
      to->open(found, O_RDONLY | O_DIRECTORY | FARCALL_IO_WORKING_FOLDER, 0, &opened);
  leave();
  count_forwarded(counted_chdir, 0);
  if (result < 0) return (int)as_libc(result);
  const int kept = inherited_copy(opened.descriptor);
  char* const name = kept >= 0 ? strdup(found) : NULL;
  const int why = errno;
  REAL(close)(opened.descriptor);
  if (name == NULL) {
    if (kept >= 0) REAL(close)(kept);
    errno = why;
    return -1;
  }
  set(kept, name);
  return REAL(chdir)("/");
}

EXPORT int chdir(const char* to) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, to, absolute, counted_chdir) != NULL) return enter_folder(absolute);
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
  const int why = errno;
  (void)let_go(f);
  errno = why;
  return result;
}

EXPORT char* getcwd(char* to, size_t room) {
  pthread_mutex_lock(&mutex);
  const size_t bytes = path != NULL ? strlen(path) + 1 : 0;
  if (bytes != 0) {
    if (to == NULL && (room == 0 || room >= bytes)) {
      to = malloc(room == 0 ? bytes : room);
      room = bytes;
    } else if (room < bytes) {
      errno = to != NULL && room == 0 ? EINVAL : ERANGE;
      to = NULL;
    }
    if (to != NULL) memcpy(to, path, bytes);
  }
  pthread_mutex_unlock(&mutex);
  return bytes != 0 ? to : REAL(getcwd)(to, room);
}
EXPORT char* get_current_dir_name(void) { return getcwd(NULL, 0); }
EXPORT char* __getcwd_chk(char* to, size_t room, size_t there);
char* __getcwd_chk(char* to, size_t room, size_t there) {
  if (room > there) abort();
  return getcwd(to, room);
}
