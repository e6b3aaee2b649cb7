// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* posix_spawn() with file actions. Libc performs the actions by system calls in the child, and
 * would open the target's own files. The library notes the actions of each object. If one of them
 * concerns a file of the host, a fork performs them by the functions of this library. */

enum kind { opens, closes, duplicates, enters, enters_open, closes_from, takes_terminal };

struct action {
  enum kind kind;
  int fd;
  int to;
  int flags;
  mode_t mode;
  char* path;
  struct action* next;
};

/* The actions of one object of the program. */
struct actions {
  const posix_spawn_file_actions_t* of;
  struct action* first;
  struct actions* next;
};

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct actions* all;

DECLARE_REAL(posix_spawn);
DECLARE_REAL(posix_spawnp);
DECLARE_REAL(posix_spawn_file_actions_init);
DECLARE_REAL(posix_spawn_file_actions_destroy);
DECLARE_REAL(posix_spawn_file_actions_addopen);
DECLARE_REAL(posix_spawn_file_actions_addclose);
DECLARE_REAL(posix_spawn_file_actions_adddup2);
DECLARE_REAL(posix_spawn_file_actions_addchdir_np);
DECLARE_REAL(posix_spawn_file_actions_addfchdir_np);
DECLARE_REAL(posix_spawn_file_actions_addclosefrom_np);
DECLARE_REAL(posix_spawn_file_actions_addtcsetpgrp_np);

void spawn_after_fork(void) { all_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

/* Returns the place of the object's entry in the list, or of the list's end. Called with the
 * mutex. */
static struct actions** find(const posix_spawn_file_actions_t* of) {
  struct actions** at = &all;
  while (*at != NULL && (*at)->of != of)
    at = &(*at)->next;
  return at;
}

static void forget(const posix_spawn_file_actions_t* of) {
  lock(&all_mutex);
  struct actions** const at = find(of);
  struct actions* const gone = *at;
  if (gone != NULL) *at = gone->next;
  unlock(&all_mutex);
  for (struct action* a = gone != NULL ? gone->first : NULL; a != NULL;) {
    struct action* const next = a->next;
    free(a->path);
    free(a);
    a = next;
  }
  free(gone);
}

/* Notes an action, if libc has noted it with the result `why`. Returns 0, or the error number. */
static int note(const posix_spawn_file_actions_t* of, int why, struct action what,
                const char* path) {
  if (why != 0) return why;
  struct action* const added = malloc(sizeof *added);
  struct actions* const begun = calloc(1, sizeof *begun);
  what.path = path != NULL ? strdup(path) : NULL;
  if (added == NULL || begun == NULL || (path != NULL && what.path == NULL)) {
    free(added);
    free(begun);
    free(what.path);
    return ENOMEM;
  }
  *added = what;
  begun->of = of;
  lock(&all_mutex);
  struct actions** const at = find(of);
  const int is_new = *at == NULL;
  if (is_new) *at = begun;
  struct action** last = &(*at)->first;
  while (*last != NULL)
    last = &(*last)->next;
  *last = added;
  unlock(&all_mutex);
  if (!is_new) free(begun);
  return 0;
}

EXPORT int posix_spawn_file_actions_init(posix_spawn_file_actions_t* of) {
  forget(of);
  return REAL(posix_spawn_file_actions_init)(of);
}
EXPORT int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t* of) {
  forget(of);
  return REAL(posix_spawn_file_actions_destroy)(of);
}
EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* restrict of, int fd,
                                            const char* restrict path, int flags, mode_t mode) {
  return note(of, REAL(posix_spawn_file_actions_addopen)(of, fd, path, flags, mode),
              (struct action){.kind = opens, .fd = fd, .flags = flags, .mode = mode}, path);
}
EXPORT int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* restrict of,
                                                const char* restrict path) {
  return note(of, REAL(posix_spawn_file_actions_addchdir_np)(of, path),
              (struct action){.kind = enters}, path);
}
EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* of, int fd, int to) {
  return note(of, REAL(posix_spawn_file_actions_adddup2)(of, fd, to),
              (struct action){.kind = duplicates, .fd = fd, .to = to}, NULL);
}

/* Defines a function whose action has a descriptor only. */
#define DEFINE_ADD(name, what)                                                                     \
  EXPORT int posix_spawn_file_actions_##name(posix_spawn_file_actions_t* of, int fd) {             \
    return note(of, REAL(posix_spawn_file_actions_##name)(of, fd),                                 \
                (struct action){.kind = what, .fd = fd}, NULL);                                    \
  }
DEFINE_ADD(addclose, closes)
DEFINE_ADD(addfchdir_np, enters_open)
DEFINE_ADD(addclosefrom_np, closes_from)
DEFINE_ADD(addtcsetpgrp_np, takes_terminal)

/* ---- in the child ---- */

static int open_at(const struct action* a) {
  const int fd = open(a->path, a->flags, a->mode);
  if (fd < 0 || fd == a->fd) return fd;
  const int result = dup2(fd, a->fd);
  (void)close(fd);
  return result;
}

/* Closes all descriptors from a number on, except the one by which the child reports errors. */
static void close_from(unsigned first, unsigned report) {
  if (report > first) (void)close_range(first, report - 1, 0);
  (void)close_range(report < first ? first : report + 1, UINT_MAX, 0);
}

static int perform(const struct action* a, int report) {
  switch (a->kind) {
  case opens:
    return open_at(a);
  case closes:
    (void)close(a->fd);
    return 0;
  case duplicates:
    return a->fd == a->to ? fcntl(a->fd, F_SETFD, 0) : dup2(a->fd, a->to);
  case enters:
    return chdir(a->path);
  case enters_open:
    return fchdir(a->fd);
  case closes_from:
    close_from(a->fd < 0 ? 0 : (unsigned)a->fd, (unsigned)report);
    return 0;
  default:
    return tcsetpgrp(a->fd, getpgrp());
  }
}

/* Gives the process its attributes. Returns 0, or -1 with errno. */
static int set_attributes(const posix_spawnattr_t* attributes) {
  short flags = 0;
  sigset_t signals;
  pid_t group = 0;
  int policy = 0;
  struct sched_param parameters;
  if (attributes == NULL) return 0;
  (void)posix_spawnattr_getflags(attributes, &flags);
  (void)posix_spawnattr_getpgroup(attributes, &group);
  (void)posix_spawnattr_getschedpolicy(attributes, &policy);
  (void)posix_spawnattr_getschedparam(attributes, &parameters);
  if ((flags & POSIX_SPAWN_SETSIGDEF) != 0) {
    (void)posix_spawnattr_getsigdefault(attributes, &signals);
    for (int i = 1; i < NSIG; ++i) {
      if (sigismember(&signals, i) == 1) (void)signal(i, SIG_DFL);
    }
  }
  if ((flags & POSIX_SPAWN_SETSCHEDULER) != 0) {
    if (sched_setscheduler(0, policy, &parameters) < 0) return -1;
  } else if ((flags & POSIX_SPAWN_SETSCHEDPARAM) != 0 && sched_setparam(0, &parameters) != 0) {
    return -1;
  }
  if ((flags & POSIX_SPAWN_SETSID) != 0 && setsid() < 0) return -1;
  if ((flags & POSIX_SPAWN_SETPGROUP) != 0 && setpgid(0, group) != 0) return -1;
  if ((flags & POSIX_SPAWN_RESETIDS) != 0 && (setegid(getgid()) != 0 || seteuid(getuid()) != 0))
    return -1;
  if ((flags & POSIX_SPAWN_SETSIGMASK) == 0) return 0;
  (void)posix_spawnattr_getsigmask(attributes, &signals);
  return sigprocmask(SIG_SETMASK, &signals, NULL);
}

/* True if the action closes or replaces the descriptor of a working folder at the host, which the
 * program does not know. */
static int ends_working_folder(const struct action* a) {
  const int fd = working_folder_descriptor();
  if (fd < 0) return 0;
  switch (a->kind) {
  case opens:
  case closes:
    return a->fd == fd;
  case duplicates:
    return a->to == fd;
  default:
    return a->kind == closes_from && a->fd <= fd;
  }
}

/* True if one of the actions concerns a file of the host. Called with the mutex. */
static int concerns_host(const struct actions* list) {
  for (const struct action* a = list != NULL ? list->first : NULL; a != NULL; a = a->next) {
    SPACE(space);
    if (a->path != NULL && hosts_path(AT_FDCWD, a->path, &space, counted_open) != NULL) return 1;
    if (a->kind == enters_open && is_hosts_descriptor(a->fd)) return 1;
    if (ends_working_folder(a)) return 1;
  }
  return 0;
}

/* The child of a fork: never returns. */
static void become(const struct actions* list, const posix_spawnattr_t* attributes, int report,
                   const char* program, int searches, char* const words[],
                   char* const variables[]) {
  int is_done = set_attributes(attributes) == 0;
  for (const struct action* a = list->first; a != NULL && is_done; a = a->next)
    is_done = perform(a, report) >= 0;
  if (is_done && searches) (void)execvpe(program, words, variables);
  if (is_done && !searches) (void)execve(program, words, variables);
  (void)!write(report, &errno, sizeof errno);
  _exit(127);
}

/* Starts a program by a fork. Returns 0, or the error number. */
static int spawn(pid_t* pid, const struct actions* list, const posix_spawnattr_t* attributes,
                 const char* program, int searches, char* const words[], char* const variables[]) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  /* The actions close and replace low numbers. */
  const int higher = fcntl(report[1], F_DUPFD_CLOEXEC, first_own_descriptor);
  const pid_t child = fork();
  if (child == 0)
    become(list, attributes, higher >= 0 ? higher : report[1], program, searches, words, variables);
  int why = child < 0 ? errno : 0;
  (void)close(report[1]);
  if (higher >= 0) (void)close(higher);
  ssize_t got = 0;
  do {
    got = child > 0 ? read(report[0], &why, sizeof why) : 0;
  } while (got < 0 && errno == EINTR);
  if (got > 0) (void)waitpid(child, NULL, 0);
  (void)close(report[0]);
  if (why == 0 && pid != NULL) *pid = child;
  return why;
}

#define DEFINE_SPAWN(name, searches)                                                               \
  EXPORT int name(pid_t* restrict pid, const char* restrict program,                               \
                  const posix_spawn_file_actions_t* restrict of,                                   \
                  const posix_spawnattr_t* restrict attributes, char* const words[restrict],       \
                  char* const variables[restrict]) {                                               \
    lock(&all_mutex);                                                                              \
    const struct actions* const list = of != NULL ? *find(of) : NULL;                              \
    const int is_own = concerns_host(list);                                                        \
    unlock(&all_mutex);                                                                            \
    return is_own ? spawn(pid, list, attributes, program, searches, words, variables)              \
                  : REAL(name)(pid, program, of, attributes, words, variables);                    \
  }
DEFINE_SPAWN(posix_spawn, 0)
DEFINE_SPAWN(posix_spawnp, 1)
