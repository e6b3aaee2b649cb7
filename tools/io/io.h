#ifndef FARCALL_TOOLS_IO_H
#define FARCALL_TOOLS_IO_H

#include <farcall/files/io_table.h>

#include <limits.h>
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

/* Null until the target's job attaches, or in a program that a target has started, from the
 * beginning, `through_target`; afterwards never null again. */
extern _Atomic(const struct farcall_io_table*) attached;

/* Begins a call of the table; null, with errno EIO, within such a call. To be followed by leave().
 */
const struct farcall_io_table* enter(void);
void leave(void);
/* A result of the table, as libc gives it: -1 and errno, or the number. */
int64_t as_libc(int64_t result);

/* ---- programs that a target starts, and children of forks ---- */

/* Has the target do everything, by its socket. */
extern const struct farcall_io_table through_target;
/* This process is one of them. */
int is_child(void);
/* `socket` is as in the variable FARCALL_IO_SOCKET. -1: it names none. */
int use_target(const char* socket);
/* Takes over descriptors of the host's files that the program was started with. */
void adopt_descriptors(void);
/* Where the library's own descriptors begin: programs look at low numbers, and close or take what
 * they find there. */
enum { first_own_descriptor = 700 };
/* One that the program shall not close, and may put another one into the place of. */
int is_connection(int fd);
void leave_connection(void);

/* In a child of a fork. */
void client_after_fork(void);
void working_folder_after_fork(void);
void descriptors_after_fork(void);
void folders_after_fork(void);
void streams_after_fork(void);
void report_after_fork(void);

/* ---- what is counted ---- */

#define FUNCTIONS(each)                                                                            \
  each(open) each(descriptor) each(close) each(read) each(write) each(lseek) each(stat)            \
      each(access) each(truncate) each(fsync) each(unlink) each(rename) each(mkdir) each(rmdir)    \
          each(readlink) each(opendir) each(readdir) each(fopen) each(dup) each(fcntl) each(ioctl) \
              each(sendfile) each(copy_file_range) each(mmap) each(flock) each(freopen) each(link) \
                  each(chmod) each(chown) each(utimes) each(statfs) each(fallocate) each(xattr)    \
                      each(mknod) each(chdir) each(realpath)
#define AS_ENUMERATOR(name) counted_##name,
enum counted { FUNCTIONS(AS_ENUMERATOR) counted_functions };

/* Why a call went on to libc, or was refused. */
enum passed { before_job, other_path, other_file, not_offered, passed_reasons };

extern int reports; /* FARCALL_IO_REPORT */
void begin_report(void);
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
  _Atomic(int) kept;      /* a descriptor of its own, while calls go on without another; or -1 */
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
/* The descriptor, of `opened`, stands for the file. `path` is kept for a folder. Returns it, or -1,
 * and it is closed. */
int use_descriptor(const struct farcall_io_opened* opened, int flags, const char* path);
/* The same for one that the program was started with, which may have others of the same file; -1:
 * it stays what it is. */
int adopt_descriptor(const struct farcall_io_opened* opened, int flags, const char* path);
/* All of them are what they are to the system. */
void forget_descriptors(void);
/* The descriptor stands for nothing any more; what it stood for, with its use, or null. */
struct file* take_file(int fd);

/* ---- paths ---- */

enum { longest_path = 8192 };
/* The absolute path, in `to`, where it is one of the host's; null: libc's. `folder` as in openat().
 */
const char* hosts_path(int folder, const char* path, char to[longest_path], enum counted what);
/* The same of two paths, of which the host's and libc's do not go together. 1: both are the host's;
 * 0: both are libc's; -1, and errno EXDEV: they are two file systems. */
int both_hosts_paths(int from_folder, const char* from, char absolute_from[longest_path],
                     int to_folder, const char* to, char absolute_to[longest_path],
                     enum counted what);
int open_hosts(const char* absolute, int flags, mode_t mode);
/* A copy of the descriptor that /dev/stdin, /dev/fd/N and the like name, where it is of a host's
 * file; else -1. It shares the position, which with local files it would not. */
int open_copy(const char* path, int flags);
/* The real path of an absolute one that is the host's. 0, or -1 and errno. */
int resolve_hosts(const char* absolute, char found[PATH_MAX]);

/* ---- a working folder of the host's ---- */

/* -1: it is the system's. The program does not see it. */
int working_folder_descriptor(void);
/* To another number: the program takes this one. */
void move_working_folder(void);
/* It is the system's. */
void leave_working_folder(void);
/* The program was started in it. */
void adopt_working_folder(int fd, const char* path);

/* ---- between the files ---- */

int64_t read_file(struct file* f, void* to, size_t bytes);
int64_t write_file(struct file* f, const void* from, size_t bytes);
int64_t pread_file(struct file* f, void* to, size_t bytes, off_t offset);
int64_t pwrite_file(struct file* f, const void* from, size_t bytes, off_t offset);
int64_t seek_file(struct file* f, off_t offset, int whence);
int stat_file(struct file* f, struct farcall_io_status* status);
/* Of open(), from those of fopen(). -1, and errno, where the mode is none. */
int flags_of(const char* mode, int* flags);
/* A stream that uses the descriptor by read(), write() and the like, and closes it; or null. */
FILE* stream_of(int fd, const char* mode);
/* Of such a stream; -1: it is libc's. */
int descriptor_of(FILE* file);
/* How such a stream is used, as of fwide(): 0, not yet. Null: it is libc's. */
int* orientation_of(FILE* file);
/* What serves in the stream's place, where it is libc's stdin, stdout or stderr and was replaced.
 */
FILE* current_stream(FILE* file);
/* Streams write what they hold. */
void flush_streams(void);
/* The descriptor is about to be a file of the host: where it is that of stdin, stdout or stderr,
 * these become streams that can use it. */
void prepare_standard_stream(int fd);

#endif
