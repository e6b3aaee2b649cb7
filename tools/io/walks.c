// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Functions that walk through folders. Libc's versions open and list folders by hidden functions,
 * and so would find the target's own files. */

DECLARE_REAL(glob);
DECLARE_REAL(nftw);
DECLARE_REAL(ftw);

static int is_attached(void) {
  return atomic_load_explicit(&attached, memory_order_acquire) != NULL;
}

/* ---- glob ---- */

/* Gives libc's glob() the functions of this library. Functions that the program itself has given
 * stay. */
EXPORT int glob(const char* restrict pattern, int flags, int (*failed)(const char*, int),
                glob_t* restrict found) {
  if (!is_attached() || (flags & GLOB_ALTDIRFUNC) != 0)
    return REAL(glob)(pattern, flags, failed, found);
  found->gl_opendir = (void* (*)(const char*))(void (*)(void))opendir;
  found->gl_readdir = (struct dirent * (*)(void*))(void (*)(void))readdir;
  found->gl_closedir = (void (*)(void*))(void (*)(void))closedir;
  found->gl_stat = stat;
  found->gl_lstat = lstat;
  const int result = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}
EXPORT int glob64(const char* restrict pattern, int flags, int (*failed)(const char*, int),
                  glob64_t* restrict found) {
  return glob(pattern, flags, failed, (glob_t*)found);
}

/* ---- ftw ---- */

typedef int (*plain_visitor)(const char*, const struct stat*, int);
typedef int (*visitor)(const char*, const struct stat*, int, struct FTW*);

struct walk {
  plain_visitor plain; /* for ftw(), else null */
  visitor visit;
  int flags;
  dev_t device; /* of the first folder */
  int start;    /* with FTW_CHDIR: the working folder, to which the path is relative */
  char* path;
  size_t space;
};

/* Folders above the present one. */
struct above {
  dev_t device;
  ino_t inode;
  const struct above* next;
};

/* Appends a name to the path, which has `bytes` bytes. Returns the new length, or 0 without
 * memory. */
static size_t enter(struct walk* w, size_t bytes, const char* name) {
  const size_t more = strlen(name);
  if (bytes + more + 2 > w->space) {
    char* const longer = realloc(w->path, 2 * (bytes + more + 2));
    if (longer == NULL) return 0;
    w->path = longer;
    w->space = 2 * (bytes + more + 2);
  }
  if (bytes > 0 && w->path[bytes - 1] != '/') w->path[bytes++] = '/';
  memcpy(w->path + bytes, name, more + 1);
  return bytes + more;
}

/* Calls the program's function. With FTW_CHDIR, the file's folder is the working folder. */
static int call(struct walk* w, const struct stat* s, int kind, int level) {
  if (w->plain != NULL) return w->plain(w->path, s, kind == FTW_SLN ? FTW_NS : kind);
  const char* const slash = strrchr(w->path, '/');
  const int base = slash == NULL || slash[1] == '\0' ? 0 : (int)(slash + 1 - w->path);
  if (w->start >= 0) {
    if (fchdir(w->start) != 0) return -1;
    if (base > 0) {
      const char kept = w->path[base];
      w->path[base] = '\0';
      const int moved = chdir(w->path);
      w->path[base] = kept;
      if (moved != 0) return -1;
    }
  }
  struct FTW where = {base, level};
  const int result = w->visit(w->path, s, kind, &where);
  return w->start >= 0 && fchdir(w->start) != 0 ? -1 : result;
}

static int is_above(const struct above* all, const struct stat* s) {
  for (; all != NULL; all = all->next) {
    if (all->device == s->st_dev && all->inode == s->st_ino) return 1;
  }
  return 0;
}

static int skips(const struct walk* w, int result, int what) {
  return (w->flags & FTW_ACTIONRETVAL) != 0 && result == what;
}

static int visit(struct walk* w, size_t bytes, int level, const struct above* above);

/* Visits the entries of a folder. All names are read first, so that no folder stays open. */
static int visit_entries(struct walk* w, size_t bytes, int level, const struct above* above,
                         struct dirent** entries, int count) {
  int result = 0;
  for (int i = 0; i < count; ++i) {
    const char* const name = entries[i]->d_name;
    if (result == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
      const size_t longer = enter(w, bytes, name);
      result = longer == 0 ? -1 : visit(w, longer, level, above);
      w->path[bytes] = '\0';
    }
    free(entries[i]);
  }
  free(entries);
  return skips(w, result, FTW_SKIP_SIBLINGS) ? 0 : result;
}

static int visit_folder(struct walk* w, const struct stat* s, size_t bytes, int level,
                        const struct above* above) {
  struct dirent** entries = NULL;
  const int count = scandir(w->path, &entries, NULL, NULL);
  if (count < 0) return errno == EACCES ? call(w, s, FTW_DNR, level) : -1;
  const struct above here = {s->st_dev, s->st_ino, above};
  int result = (w->flags & FTW_DEPTH) != 0 ? 0 : call(w, s, FTW_D, level);
  if (result != 0) {
    for (int i = 0; i < count; ++i)
      free(entries[i]);
    free(entries);
    return skips(w, result, FTW_SKIP_SUBTREE) ? 0 : result;
  }
  result = visit_entries(w, bytes, level + 1, &here, entries, count);
  return result == 0 && (w->flags & FTW_DEPTH) != 0 ? call(w, s, FTW_DP, level) : result;
}

static int visit(struct walk* w, size_t bytes, int level, const struct above* above) {
  struct stat s;
  int kind = FTW_F;
  if (((w->flags & FTW_PHYS) != 0 ? lstat : stat)(w->path, &s) != 0) {
    if (level == 0 || (errno != EACCES && errno != ENOENT && errno != ELOOP)) return -1;
    kind = (w->flags & FTW_PHYS) == 0 && lstat(w->path, &s) == 0 ? FTW_SLN : FTW_NS;
  } else if (level == 0) {
    w->device = s.st_dev;
  }
  if (kind == FTW_F && (w->flags & FTW_MOUNT) != 0 && s.st_dev != w->device) return 0;
  int result = 0;
  if (kind == FTW_F && S_ISDIR(s.st_mode)) {
    if (is_above(above, &s)) return 0;
    result = visit_folder(w, &s, bytes, level, above);
  } else {
    result = call(w, &s, kind == FTW_F && S_ISLNK(s.st_mode) ? FTW_SL : kind, level);
  }
  return skips(w, result, FTW_SKIP_SUBTREE) ? 0 : result;
}

static int walk(const char* path, plain_visitor plain, visitor function, int flags) {
  struct walk w = {plain, function, flags, 0, -1, NULL, 0};
  if (!is_text(path)) return -1;
  if ((flags & FTW_CHDIR) != 0) {
    w.start = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.start < 0) return -1;
  }
  size_t bytes = enter(&w, 0, path);
  while (bytes > 1 && w.path[bytes - 1] == '/')
    w.path[--bytes] = '\0';
  const int result = w.path == NULL ? -1 : visit(&w, bytes, 0, NULL);
  const int why = errno;
  if (w.start >= 0) (void)close(w.start);
  free(w.path);
  errno = why;
  return result;
}

EXPORT int nftw(const char* path, visitor function, int descriptors, int flags) {
  return is_attached() ? walk(path, NULL, function, flags)
                       : REAL(nftw)(path, function, descriptors, flags);
}
EXPORT int nftw64(const char* path,
                  int (*function)(const char*, const struct stat64*, int, struct FTW*),
                  int descriptors, int flags) {
  return nftw(path, (visitor)(void (*)(void))function, descriptors, flags);
}
EXPORT int ftw(const char* path, plain_visitor function, int descriptors) {
  return is_attached() ? walk(path, function, NULL, 0) : REAL(ftw)(path, function, descriptors);
}
EXPORT int ftw64(const char* path, int (*function)(const char*, const struct stat64*, int),
                 int descriptors) {
  return ftw(path, (plain_visitor)(void (*)(void))function, descriptors);
}
