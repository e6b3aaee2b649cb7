#ifndef FARCALL_TOOLS_IO_H
#define FARCALL_TOOLS_IO_H

#include <farcall/files/io_table.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
/* A second name of a function above. */
#define ALSO(name, of) extern EXPORT __typeof__(name) name __attribute__((alias(#of)))

/* ---- libc ---- */

/* The next function of that name, which is libc's: as of dlsym(RTLD_NEXT). `kept` remembers it. */
typedef void (*any_function)(void);
any_function find_next(_Atomic(any_function)* kept, const char* name);
/* In a function: REAL(read)(fd, to, n). Its type is that of the declaration. */
#define DECLARE_REAL(name) static _Atomic(any_function) real_of_##name
#define REAL(name) ((__typeof__(&name))find_next(&real_of_##name, #name))

/* ---- the job ---- */

/* Null until the target's job attaches; afterwards never again. */
extern _Atomic(const struct farcall_io_table*) attached;

/* Begins a call of the table; null, with errno EIO, in a child of a fork, and within such a call.
 * To be followed by leave(). */
const struct farcall_io_table* enter(void);
void leave(void);
/* A result of the table, as libc gives it: -1 and errno, or the number. */
int64_t as_libc(int64_t result);
int is_forked(void);

/* ---- what is counted ---- */

#define FUNCTIONS(each)                                                                            \
  each(open) each(close) each(read) each(write) each(lseek) each(stat) each(access) each(truncate) \
      each(fsync) each(unlink) each(rename) each(mkdir) each(rmdir) each(readlink) each(opendir)   \
          each(readdir) each(fopen) each(dup) each(fcntl) each(ioctl) each(sendfile)               \
              each(copy_file_range) each(mmap) each(flock) each(freopen)
#define AS_ENUMERATOR(name) counted_##name,
enum counted { FUNCTIONS(AS_ENUMERATOR) counted_functions };

/* Why a call went on to libc, or was refused. */
enum passed { before_job, other_path, other_file, not_offered, passed_reasons };

extern int reports; /* FARCALL_IO_REPORT */
void count_forwarded(enum counted what, int64_t bytes);
void count_passed(enum counted what, enum passed why);
/* For what is not forwarded: nothing, unless somebody wants to know. */
static inline void pass(enum counted what, enum passed why) {
  if (__builtin_expect(reports, 0)) count_passed(what, why);
}

/* ---- descriptors ---- */

/* A file of the host that is open: several descriptors may stand for it. */
struct file {
  _Atomic(uint32_t) uses; /* descriptors, and calls that are under way */
  uint64_t number;        /* at the host */
  uint32_t mode;          /* as in struct stat */
  _Atomic(int) flags;     /* as of F_GETFL */
  char* path;             /* of a folder; owned */
  struct file* next_free;
};

enum { most_descriptors = 1 << 20 };
extern _Atomic(struct file*) files[most_descriptors];

struct file* hold(int fd);
/* What the descriptor stands for, to be followed by let_go(); null: not a host's file, or it was
 * closed meanwhile. The first load is all that other descriptors cost. */
static inline struct file* file_of(int fd) {
  if ((unsigned)fd >= most_descriptors) return NULL;
  if (atomic_load_explicit(&files[fd], memory_order_acquire) == NULL) return NULL;
  return hold(fd);
}
/* Gives up one use; the last one closes the file at the host. As close(). */
int let_go(struct file* f);
/* A new descriptor for what was opened, or -1. `path` is kept for a folder. */
int make_descriptor(const struct farcall_io_opened* opened, int flags, const char* path);
/* A descriptor is one more of `f`, of which the caller has a use that goes over to it. */
void set_file(int fd, struct file* f);
/* The descriptor stands for nothing any more; what it stood for, with its use, or null. */
struct file* take_file(int fd);

/* ---- paths ---- */

enum { longest_path = 8192 };
/* The absolute path, in `to`, where it is one of the host's; null: libc's. `folder` as in openat().
 */
const char* hosts_path(int folder, const char* path, char to[longest_path], enum counted what);
int open_hosts(const char* absolute, int flags, mode_t mode);

/* ---- between the files ---- */

int64_t read_file(struct file* f, void* to, size_t bytes);
int64_t write_file(struct file* f, const void* from, size_t bytes);
int64_t pread_file(struct file* f, void* to, size_t bytes, off_t offset);
int64_t pwrite_file(struct file* f, const void* from, size_t bytes, off_t offset);
int64_t seek_file(struct file* f, off_t offset, int whence);
int stat_file(struct file* f, struct farcall_io_status* status);
/* Streams write what they hold. */
void flush_streams(void);

#endif
