// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of the host that the program lists. The program's DIR* points to this structure. */
struct listing {
  int fd;
  size_t at;  /* offset of the next entry in the buffer */
  size_t end; /* offset of the end of the fetched entries */
  struct listing* next;
  _Alignas(16) char entries[65536];
};

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct listing*) all;

DECLARE_REAL(opendir);
DECLARE_REAL(fdopendir);
DECLARE_REAL(readdir);
DECLARE_REAL(readdir_r);
DECLARE_REAL(getdents64);
DECLARE_REAL(closedir);
DECLARE_REAL(rewinddir);
DECLARE_REAL(telldir);
DECLARE_REAL(seekdir);
DECLARE_REAL(dirfd);

void folders_after_fork(void) { all_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

/* Returns the listing that `folder` points to. Returns null if the folder is local. If `removes` is
 * true, also removes the listing from the list of all. */
static struct listing* find(DIR* folder, int removes) {
  if (atomic_load_explicit(&all, memory_order_acquire) == NULL) return NULL;
  pthread_mutex_lock(&all_mutex);
  struct listing* before = NULL;
  struct listing* l = atomic_load(&all);
  while (l != NULL && (void*)l != (void*)folder) {
    before = l;
    l = l->next;
  }
  if (l != NULL && removes) {
    if (before == NULL) {
      atomic_store(&all, l->next);
    } else {
      before->next = l->next;
    }
  }
  pthread_mutex_unlock(&all_mutex);
  return l;
}

static DIR* list_descriptor(int fd) {
  struct listing* const l = malloc(sizeof *l);
  if (l == NULL) return NULL;
  l->fd = fd;
  l->at = l->end = 0;
  pthread_mutex_lock(&all_mutex);
  l->next = atomic_load(&all);
  atomic_store_explicit(&all, l, memory_order_release);
  pthread_mutex_unlock(&all_mutex);
  return (DIR*)l;
}

EXPORT DIR* opendir(const char* path) {
  SPACE(space);
  const char* const absolute = hosts_path(AT_FDCWD, path, &space, counted_opendir);
  if (absolute == NULL) return REAL(opendir)(path);
  const int fd = open_hosts(absolute, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return NULL;
  count_forwarded(counted_opendir, 0);
  DIR* const folder = list_descriptor(fd);
  if (folder == NULL) {
    (void)close(fd);
    errno = ENOMEM;
  }
  return folder;
}

EXPORT DIR* fdopendir(int fd) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(fdopendir)(fd);
  const int is_folder = f->path != NULL;
  (void)done_with(f, 0);
  if (is_folder) return list_descriptor(fd);
  errno = ENOTDIR;
  return NULL;
}

/* Returns the next entry, and fetches further ones from the host if needed. The host's entries
 * have the format of getdents64(), which is also the format of struct dirent. */
static struct dirent* next_of(struct listing* l) {
  if (l->at >= l->end) {
    struct file* const f = file_of(l->fd);
    if (f == NULL) {
      errno = EBADF;
      return NULL;
    }
    const int64_t got = host_list(f->number, l->entries, sizeof l->entries);
    count_forwarded(counted_readdir, got);
    if (done_with(f, got) <= 0) return NULL;
    l->at = 0;
    l->end = (size_t)got;
  }
  struct dirent* const entry = (struct dirent*)(l->entries + l->at);
  /* Check the entry, so that a faulty host cannot cause reads outside the buffer. */
  const size_t head = offsetof(struct dirent, d_name);
  const size_t left = l->end - l->at;
  if (left <= head || entry->d_reclen <= head || entry->d_reclen > left ||
      entry->d_reclen % 8 != 0 || memchr(entry->d_name, 0, entry->d_reclen - head) == NULL) {
    errno = EIO;
    return NULL;
  }
  l->at += entry->d_reclen;
  return entry;
}

EXPORT struct dirent* readdir(DIR* folder) {
  struct listing* const l = find(folder, 0);
  return l != NULL ? next_of(l) : REAL(readdir)(folder);
}

EXPORT struct dirent64* readdir64(DIR* folder) { return (struct dirent64*)readdir(folder); }

/* <dirent.h> deprecates readdir_r(), which older programs still call. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORT int readdir_r(DIR* restrict folder, struct dirent* restrict to,
                     struct dirent** restrict found) {
  struct listing* const l = find(folder, 0);
  if (l == NULL) return REAL(readdir_r)(folder, to, found);
  const int before = errno;
  errno = 0;
  const struct dirent* const entry = next_of(l);
  const int why = errno;
  errno = before;
  *found = NULL;
  if (entry == NULL) return why;
  if (entry->d_reclen > sizeof *to) return ENAMETOOLONG;
  memcpy(to, entry, entry->d_reclen);
  *found = to;
  return 0;
}
EXPORT int readdir64_r(DIR* restrict folder, struct dirent64* restrict to,
                       struct dirent64** restrict found) {
  return readdir_r(folder, (struct dirent*)to, (struct dirent**)found);
}
#pragma GCC diagnostic pop

EXPORT ssize_t getdents64(int fd, void* to, size_t bytes) {
  struct file* const f = file_of(fd);
  if (f == NULL) return REAL(getdents64)(fd, to, bytes);
  const int64_t got = host_list(f->number, to, bytes);
  count_forwarded(counted_readdir, got);
  return done_with(f, got);
}

EXPORT ssize_t getdirentries(int fd, char* restrict to, size_t bytes, off_t* restrict at) {
  const off_t before = lseek(fd, 0, SEEK_CUR);
  const ssize_t got = before < 0 ? -1 : getdents64(fd, to, bytes);
  if (got >= 0) *at = before;
  return got;
}
ALSO(getdirentries64, getdirentries);

/* Closes a folder of libc, whose descriptor may have got a file of the host by dup2(). */
static int close_libcs(DIR* folder) {
  struct file* const f = atomic_load(&attached) != NULL ? take_to_close(REAL(dirfd)(folder)) : NULL;
  const int result = REAL(closedir)(folder);
  if (f != NULL) (void)release_file(f);
  return result;
}

EXPORT int closedir(DIR* folder) {
  struct listing* const l = find(folder, 1);
  if (l == NULL) return close_libcs(folder);
  const int result = close(l->fd);
  const int why = errno;
  free(l);
  errno = why;
  return result;
}

static void seek_listing(struct listing* l, off_t where) {
  l->at = l->end = 0;
  (void)lseek(l->fd, where, SEEK_SET);
}

EXPORT void rewinddir(DIR* folder) {
  struct listing* const l = find(folder, 0);
  if (l == NULL) {
    REAL(rewinddir)(folder);
  } else {
    seek_listing(l, 0);
  }
}

EXPORT long telldir(DIR* folder) {
  struct listing* const l = find(folder, 0);
  if (l == NULL) return REAL(telldir)(folder);
  if (l->at >= l->end) return lseek(l->fd, 0, SEEK_CUR);
  /* The position of the next entry is `d_off` of the entry before it, because d_off is the position
   * after an entry. */
  long where = -1;
  for (size_t at = 0; at < l->at;) {
    const struct dirent* const entry = (const struct dirent*)(l->entries + at);
    where = entry->d_off;
    at += entry->d_reclen;
  }
  return where;
}

EXPORT void seekdir(DIR* folder, long where) {
  struct listing* const l = find(folder, 0);
  if (l == NULL) {
    REAL(seekdir)(folder, where);
  } else {
    seek_listing(l, where);
  }
}

EXPORT int dirfd(DIR* folder) {
  struct listing* const l = find(folder, 0);
  return l != NULL ? l->fd : REAL(dirfd)(folder);
}
