// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Functions for links, real paths and temporary names, and functions that libc implements by
 * several calls. */

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
DECLARE_REAL(mktemp);
DECLARE_REAL(tempnam);
DECLARE_REAL(scandirat);

/* ---- links ---- */

/* Makes a link at the host, with the call's result in `result`. Returns 0 and does nothing if both
 * paths are local. */
static int link_either(int from_folder, const char* from, int to_folder, const char* to, int flags,
                       int* result) {
  BOTH_PATHS(both);
  const int are_hosts = both_hosts_paths(from_folder, from, to_folder, to, &both, counted_link);
  if (are_hosts == 0) return 0;
  *result = -1;
  if (!are_known(flags, AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) return 1;
  const int follows_link = (flags & AT_SYMLINK_FOLLOW) != 0;
  if (are_hosts > 0) *result = forwarded(counted_link, host_link(both.from, both.to, follows_link));
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

static int make_symlink(const char* content, const char* absolute) {
  if (!is_text(content)) return -1;
  if (text_length(content) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return forwarded(counted_link, host_symlink(content, absolute));
}

EXPORT int symlink(const char* content, const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_link);
  return absolute == NULL ? REAL(symlink)(content, path) : make_symlink(content, absolute);
}

EXPORT int symlinkat(const char* content, int folder, const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_link);
  return absolute == NULL ? REAL(symlinkat)(content, folder, path)
                          : make_symlink(content, absolute);
}

/* ---- operations that the host does not offer ---- */

static int is_refused(int folder, const char* path, int why) {
  SPACE(space);
  const char* const absolute = hosts_path(folder, path, &space, counted_mknod);
  if (absolute == NULL) return 0;
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

EXPORT int __xmknod(int version, const char* path, mode_t mode, dev_t* device);
int __xmknod(int version, const char* path, mode_t mode, dev_t* device) {
  (void)version;
  return mknod(path, mode, *device);
}
EXPORT int __xmknodat(int version, int folder, const char* path, mode_t mode, dev_t* device);
int __xmknodat(int version, int folder, const char* path, mode_t mode, dev_t* device) {
  (void)version;
  return mknodat(folder, path, mode, *device);
}

/* ---- real paths ---- */

/* Returns the length of a path up to its last slash, that is, without its last word. The path
 * begins with '/', and has `bytes` bytes. */
static size_t without_last(const char* path, size_t bytes) {
  while (bytes > 0 && path[--bytes] != '/') {
  }
  return bytes;
}

void simplify(char* path) {
  size_t bytes = 0;
  for (const char* at = path;;) {
    at += strspn(at, "/");
    const size_t length = strcspn(at, "/");
    if (length == 0) break;
    if (length == 2 && memcmp(at, "..", 2) == 0) {
      bytes = without_last(path, bytes);
    } else if (length != 1 || at[0] != '.') {
      path[bytes++] = '/';
      memmove(path + bytes, at, length);
      bytes += length;
    }
    at += length;
  }
  if (bytes == 0) path[bytes++] = '/';
  path[bytes] = '\0';
}

/* Begins a real path with the prefix to which `path` leads: its words are real, because only the
 * host knows the folders above a prefix. Returns the rest of the path. */
static char* begin_with_prefix(char* path, char found[PATH_MAX], size_t* bytes) {
  const char* const rest = copy_prefix(path, found);
  *bytes = rest != NULL ? strlen(found) : 0;
  return rest != NULL ? path + (rest - path) : path;
}

/* Builds the real path word by word, and follows each symbolic link that it meets, like the
 * kernel. */
int resolve_hosts(const char* path, char found[PATH_MAX]) {
  SPACE(space);
  char* const left = reserve(&space, max_path + PATH_MAX);
  char* const content = left + max_path;
  size_t bytes = 0; /* of `found` */
  int links = 0;
  if (left == NULL || strlen(path) >= max_path) {
    errno = left == NULL ? ENOMEM : ENAMETOOLONG;
    return -1;
  }
  strcpy(left, path);
  for (char* at = begin_with_prefix(left, found, &bytes);;) {
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
      const ssize_t got = readlink(found, content, PATH_MAX - 1);
      struct stat s;
      if (got > 0) {
        /* Replace the link by its content: put the content before the rest of the path. */
        char* const rest = at + length;
        const size_t behind = strlen(rest);
        if (++links > 40 || (size_t)got + behind + 1 > max_path) {
          errno = links > 40 ? ELOOP : ENAMETOOLONG;
          return -1;
        }
        memmove(left + got, rest, behind + 1);
        memcpy(left, content, (size_t)got);
        at = content[0] == '/' ? begin_with_prefix(left, found, &bytes) : left;
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
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_realpath);
  if (absolute == NULL) return REAL(realpath)(path, to);
  count_forwarded(counted_realpath, 0);
  /* The new name of a working folder that was renamed is unknown, and another folder may have the
   * name from before. */
  const uint64_t folder = folder_of(absolute);
  if (folder != 0 && has_moved(absolute, strlen(absolute) - strlen(path) - 1, folder)) {
    errno = ENOENT;
    return NULL;
  }
  SPACE(found_space);
  char* const found = reserve(&found_space, PATH_MAX);
  if (found == NULL || resolve_hosts(absolute, found) != 0) return NULL;
  return to != NULL ? strcpy(to, found) : strdup(found);
}
EXPORT char* canonicalize_file_name(const char* path) { return realpath(path, NULL); }
EXPORT char* __realpath_chk(const char* path, char* to, size_t there);
char* __realpath_chk(const char* path, char* to, size_t there) {
  if (there < PATH_MAX) abort();
  return realpath(path, to);
}

/* ---- temporary names ---- */

/* Returns the six letters XXXXXX that come before the last `behind` letters of a name. Returns null
 * if the name has no such letters. */
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

enum { max_tries = 1000 };

EXPORT int mkostemps(char* name, int behind, int flags) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, name, &space, counted_open);
  if (absolute == NULL) return REAL(mkostemps)(name, behind, flags);
  char* const letters = letters_of(name, behind);
  errno = letters == NULL ? EINVAL : EEXIST;
  for (int i = 0; i < max_tries && letters != NULL && errno == EEXIST; ++i) {
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
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, name, &space, counted_mkdir);
  if (absolute == NULL) return REAL(mkdtemp)(name);
  char* const letters = letters_of(name, 0);
  errno = letters == NULL ? EINVAL : EEXIST;
  for (int i = 0; i < max_tries && letters != NULL && errno == EEXIST; ++i) {
    choose(letters);
    if (mkdir(name, 0700) == 0) return name;
  }
  return NULL;
}

/* Chooses a name of no file. Without one, makes the name empty. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of mktemp() */
EXPORT char* mktemp(char* name) {
  SPACE(space);
  if (hosts_path(AT_FDCWD, name, &space, counted_stat) == NULL) return REAL(mktemp)(name);
  char* const letters = letters_of(name, 0);
  struct stat s;
  for (int i = 0; i < max_tries && letters != NULL; ++i) {
    choose(letters);
    if (lstat(name, &s) != 0 && errno == ENOENT) return name;
  }
  if (letters == NULL) errno = EINVAL;
  name[0] = '\0';
  return name;
}

EXPORT char* tempnam(const char* folder, const char* begin) {
  const char* const wanted = getenv("TMPDIR");
  const char* const in = wanted != NULL ? wanted : folder;
  SPACE(space);
  if (in == NULL || hosts_path(AT_FDCWD, in, &space, counted_stat) == NULL || access(in, W_OK) != 0)
    return REAL(tempnam)(folder, begin);
  char* name = NULL;
  if (asprintf(&name, "%s/%.5sXXXXXX", in, begin != NULL ? begin : "file") < 0) return NULL;
  if (mktemp(name)[0] != '\0') return name;
  free(name);
  return NULL;
}
#pragma GCC diagnostic pop

EXPORT key_t ftok(const char* path, int project) {
  struct stat s;
  if (stat(path, &s) != 0) return -1;
  return (key_t)((s.st_ino & 0xffff) | (s.st_dev & 0xff) << 16 | ((unsigned)project & 0xff) << 24);
}

/* ---- lists ---- */

typedef int (*filter_function)(const struct dirent*);
typedef int (*order_function)(const struct dirent**, const struct dirent**);

static void free_all(struct dirent** all, size_t count) {
  for (size_t i = 0; i < count; ++i)
    free(all[i]);
  free(all);
}

/* Reads the folder's entries that the filter accepts. Returns their number, or -1 with errno. */
static int read_all(DIR* folder, struct dirent*** to, filter_function takes) {
  struct dirent** all = NULL;
  size_t count = 0;
  size_t space = 0;
  for (;;) {
    errno = 0;
    const struct dirent* const entry = readdir(folder);
    if (entry == NULL && errno == 0) {
      *to = all;
      return (int)count;
    }
    if (entry != NULL && takes != NULL && !takes(entry)) continue;
    struct dirent* const copy = entry != NULL ? malloc(entry->d_reclen) : NULL;
    if (copy != NULL && count == space) {
      space = space == 0 ? 64 : space * 2;
      struct dirent** const more = realloc(all, space * sizeof *all);
      if (more != NULL) all = more;
      if (more == NULL) space = 0;
    }
    if (copy == NULL || space == 0) {
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

/* Lists a folder, and closes it. A null folder is the result of a failed open. */
static int scan(DIR* folder, struct dirent*** to, filter_function takes, order_function order,
                int before) {
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

EXPORT int scandirat(int at, const char* restrict path, struct dirent*** restrict to,
                     filter_function takes, order_function order) {
  SPACE(space);
  const char* const absolute = hosts_path(at, path, &space, counted_opendir);
  const int before = errno;
  if (absolute == NULL) return REAL(scandirat)(at, path, to, takes, order);
  return scan(opendir(absolute), to, takes, order, before);
}
EXPORT int scandir(const char* restrict path, struct dirent*** restrict to, filter_function takes,
                   order_function order) {
  return scandirat(AT_FDCWD, path, to, takes, order);
}

/* Calls the functions above with the types of the functions with 64 in their names. */
#define PLAIN_TYPES(to, takes, order)                                                              \
  (struct dirent***)(to), (filter_function)(void (*)(void))(takes),                                \
      (order_function)(void (*)(void))(order)
EXPORT int scandir64(const char* restrict path, struct dirent64*** restrict to,
                     int (*takes)(const struct dirent64*),
                     int (*order)(const struct dirent64**, const struct dirent64**)) {
  return scandir(path, PLAIN_TYPES(to, takes, order));
}
EXPORT int scandirat64(int at, const char* restrict path, struct dirent64*** restrict to,
                       int (*takes)(const struct dirent64*),
                       int (*order)(const struct dirent64**, const struct dirent64**)) {
  return scandirat(at, path, PLAIN_TYPES(to, takes, order));
}
