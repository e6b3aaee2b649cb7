#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Links, real paths, temporary names, and what libc does by several calls of its own. */

DECLARE_REAL(link);
DECLARE_REAL(linkat);
DECLARE_REAL(symlink);
DECLARE_REAL(symlinkat);
DECLARE_REAL(mknod);
DECLARE_REAL(mknodat);
DECLARE_REAL(mkfifo);
DECLARE_REAL(mkfifoat);
DECLARE_REAL(realpath);
DECLARE_REAL(mkostemps);
DECLARE_REAL(mkdtemp);
DECLARE_REAL(scandir);

/* ---- links ---- */

/* 0: libc's. */
static int link_either(int from_folder, const char* from, int to_folder, const char* to, int flags,
                       int* result) {
  char absolute_from[longest_path];
  char absolute_to[longest_path];
  const int are_hosts =
      both_hosts_paths(from_folder, from, absolute_from, to_folder, to, absolute_to, counted_link);
  if (are_hosts == 0) return 0;
  *result = -1;
  const struct farcall_io_table* const table = are_hosts > 0 ? enter() : NULL;
  if (table == NULL) return 1;
  const int64_t done = table->link(absolute_from, absolute_to, (flags & AT_SYMLINK_FOLLOW) != 0);
  leave();
  count_forwarded(counted_link, 0);
  *result = (int)as_libc(done);
  return 1;
}

EXPORT int link(const char* from, const char* to) {
  int result = 0;
  return link_either(AT_FDCWD, from, AT_FDCWD, to, 0, &result) ? result : REAL(link)(from, to);
}

EXPORT int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  int result = 0;
  return link_either(from_folder, from, to_folder, to, flags, &result)
             ? result
             : REAL(linkat)(from_folder, from, to_folder, to, flags);
}

static int symlink_there(const char* content, const char* absolute) {
  const struct farcall_io_table* const table = enter();
  if (table == NULL) return -1;
  const int64_t done = table->symlink(content, absolute);
  leave();
  count_forwarded(counted_link, 0);
  return (int)as_libc(done);
}

EXPORT int symlink(const char* content, const char* path) {
  char absolute[longest_path];
  return hosts_path(AT_FDCWD, path, absolute, counted_link) != NULL
             ? symlink_there(content, absolute)
             : REAL(symlink)(content, path);
}

EXPORT int symlinkat(const char* content, int folder, const char* path) {
  char absolute[longest_path];
  return hosts_path(folder, path, absolute, counted_link) != NULL
             ? symlink_there(content, absolute)
             : REAL(symlinkat)(content, folder, path);
}

/* ---- what is not offered ---- */

static int is_refused(int folder, const char* path, int why) {
  char absolute[longest_path];
  if (hosts_path(folder, path, absolute, counted_mknod) == NULL) return 0;
  pass(counted_mknod, not_offered);
  errno = why;
  return 1;
}

EXPORT int mknod(const char* path, mode_t mode, dev_t device) {
  return is_refused(AT_FDCWD, path, EPERM) ? -1 : REAL(mknod)(path, mode, device);
}
EXPORT int mknodat(int folder, const char* path, mode_t mode, dev_t device) {
  return is_refused(folder, path, EPERM) ? -1 : REAL(mknodat)(folder, path, mode, device);
}
EXPORT int mkfifo(const char* path, mode_t mode) {
  return is_refused(AT_FDCWD, path, EPERM) ? -1 : REAL(mkfifo)(path, mode);
}
EXPORT int mkfifoat(int folder, const char* path, mode_t mode) {
  return is_refused(folder, path, EPERM) ? -1 : REAL(mkfifoat)(folder, path, mode);
}

/* ---- real paths ---- */

/* Removes the last word of a path that begins with '/', and has `bytes` bytes. */
static size_t without_last(const char* path, size_t bytes) {
  while (bytes > 0 && path[--bytes] != '/') {
  }
  return bytes;
}

/* Symbolic links are followed one by one, as the kernel would. */
int resolve_hosts(const char* path, char found[PATH_MAX]) {
  char left[longest_path];
  size_t bytes = 0; /* of `found` */
  int links = 0;
  if (strlen(path) >= sizeof left) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(left, path);
  for (char* at = left;;) {
    at += strspn(at, "/");
    const size_t length = strcspn(at, "/");
    if (length == 0) break;
    if (length == 2 && memcmp(at, "..", 2) == 0) {
      bytes = without_last(found, bytes);
    } else if (length != 1 || at[0] != '.') {
      if (bytes + length + 2 > PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
      }
      found[bytes] = '/';
      memcpy(found + bytes + 1, at, length);
      found[bytes + 1 + length] = '\0';
      char content[PATH_MAX];
      const ssize_t got = readlink(found, content, sizeof content - 1);
      struct stat s;
      if (got > 0) {
        /* What it says comes before what is left. */
        char* const rest = at + length;
        const size_t behind = strlen(rest);
        if (++links > 40 || (size_t)got + behind + 1 > sizeof left) {
          errno = links > 40 ? ELOOP : ENAMETOOLONG;
          return -1;
        }
        memmove(left + got, rest, behind + 1);
        memcpy(left, content, (size_t)got);
        at = left;
        if (content[0] == '/') bytes = 0;
        continue;
      }
      if (lstat(found, &s) != 0) return -1;
      at += length;
      if (*at != '\0' && !S_ISDIR(s.st_mode)) {
        errno = ENOTDIR;
        return -1;
      }
      bytes += 1 + length;
      continue;
    }
    at += length;
  }
  if (bytes == 0) found[bytes++] = '/';
  found[bytes] = '\0';
  return 0;
}

EXPORT char* realpath(const char* restrict path, char* restrict to) {
  char absolute[longest_path];
  if (path == NULL || hosts_path(AT_FDCWD, path, absolute, counted_realpath) == NULL)
    return REAL(realpath)(path, to);
  count_forwarded(counted_realpath, 0);
  char found[PATH_MAX];
  if (resolve_hosts(absolute, found) != 0) return NULL;
  return to != NULL ? strcpy(to, found) : strdup(found);
}
EXPORT char* canonicalize_file_name(const char* path) { return realpath(path, NULL); }
EXPORT char* __realpath_chk(const char* path, char* to, size_t there);
char* __realpath_chk(const char* path, char* to, size_t there) {
  if (there < PATH_MAX) abort();
  return realpath(path, to);
}

/* ---- temporary names ---- */

/* The six letters before `behind` others; null: there are none. */
static char* letters_of(char* name, int behind) {
  const size_t bytes = strlen(name);
  if (behind < 0 || bytes < 6 + (size_t)behind) return NULL;
  char* const letters = name + bytes - (size_t)behind - 6;
  return memcmp(letters, "XXXXXX", 6) == 0 ? letters : NULL;
}

static void choose(char* letters) {
  static const char from[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  unsigned char random[6] = {0};
  (void)!getrandom(random, sizeof random, 0);
  for (int i = 0; i < 6; ++i)
    letters[i] = from[random[i] % (sizeof from - 1)];
}

enum { most_tries = 1000 };

EXPORT int mkostemps(char* name, int behind, int flags) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, name, absolute, counted_open) == NULL)
    return REAL(mkostemps)(name, behind, flags);
  char* const letters = letters_of(name, behind);
  errno = letters == NULL ? EINVAL : EEXIST;
  for (int i = 0; i < most_tries && letters != NULL && errno == EEXIST; ++i) {
    choose(letters);
    const int fd = open(name, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) return fd;
  }
  return -1;
}
ALSO(mkostemps64, mkostemps);
EXPORT int mkstemp(char* name) { return mkostemps(name, 0, 0); }
ALSO(mkstemp64, mkstemp);
EXPORT int mkstemps(char* name, int behind) { return mkostemps(name, behind, 0); }
ALSO(mkstemps64, mkstemps);
EXPORT int mkostemp(char* name, int flags) { return mkostemps(name, 0, flags); }
ALSO(mkostemp64, mkostemp);

EXPORT char* mkdtemp(char* name) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, name, absolute, counted_mkdir) == NULL) return REAL(mkdtemp)(name);
  char* const letters = letters_of(name, 0);
  errno = letters == NULL ? EINVAL : EEXIST;
  for (int i = 0; i < most_tries && letters != NULL && errno == EEXIST; ++i) {
    choose(letters);
    if (mkdir(name, 0700) == 0) return name;
  }
  return NULL;
}

/* ---- lists ---- */

typedef int (*filter_function)(const struct dirent*);
typedef int (*order_function)(const struct dirent**, const struct dirent**);

static void free_all(struct dirent** all, size_t count) {
  for (size_t i = 0; i < count; ++i)
    free(all[i]);
  free(all);
}

/* The entries that the filter takes; -1 and errno. */
static int read_all(DIR* folder, struct dirent*** to, filter_function takes) {
  struct dirent** all = NULL;
  size_t count = 0;
  size_t room = 0;
  for (;;) {
    errno = 0;
    const struct dirent* const entry = readdir(folder);
    if (entry == NULL && errno == 0) {
      *to = all;
      return (int)count;
    }
    if (entry != NULL && takes != NULL && !takes(entry)) continue;
    struct dirent* const copy = entry != NULL ? malloc(entry->d_reclen) : NULL;
    if (copy != NULL && count == room) {
      room = room == 0 ? 64 : room * 2;
      struct dirent** const more = realloc(all, room * sizeof *all);
      if (more != NULL) all = more;
      if (more == NULL) room = 0;
    }
    if (copy == NULL || room == 0) {
      const int why = errno;
      free(copy);
      free_all(all, count);
      errno = why;
      return -1;
    }
    memcpy(copy, entry, entry->d_reclen);
    all[count++] = copy;
  }
}

EXPORT int scandir(const char* restrict path, struct dirent*** restrict to, filter_function takes,
                   order_function order) {
  char absolute[longest_path];
  if (hosts_path(AT_FDCWD, path, absolute, counted_opendir) == NULL)
    return REAL(scandir)(path, to, takes, order);
  const int before = errno;
  DIR* const folder = opendir(path);
  if (folder == NULL) return -1;
  const int count = read_all(folder, to, takes);
  const int why = count < 0 ? errno : before;
  (void)closedir(folder);
  if (count > 0 && order != NULL)
    qsort(*to, (size_t)count, sizeof **to,
          (int (*)(const void*, const void*))(void (*)(void))order);
  errno = why;
  return count;
}
EXPORT int scandir64(const char* restrict path, struct dirent64*** restrict to,
                     int (*takes)(const struct dirent64*),
                     int (*order)(const struct dirent64**, const struct dirent64**)) {
  return scandir(path, (struct dirent***)to, (filter_function)(void (*)(void))takes,
                 (order_function)(void (*)(void))order);
}
