// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_TOOLS_IO_H
#define FARCALL_TOOLS_IO_H

#include <farcall/farcall.h>
#include <farcall/files/io_table.h>

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
/* Release of this library as a number: 0x000100 is 0.1.0. */
#define THIS_RELEASE                                                                               \
  ((uint32_t)FC_VERSION_MAJOR << 16U | (uint32_t)FC_VERSION_MINOR << 8U |                          \
   (uint32_t)FC_VERSION_PATCH)
/* Gives a function a second name. The function must be defined above the use. */
#define ALSO(name, of) extern EXPORT __typeof__(name) name __attribute__((alias(#of)))

/* ---- libc ---- */

/* Returns libc's function of that name: the next one in load order, as by dlsym(RTLD_NEXT).
 * `kept` caches the function. */
typedef void (*any_function)(void);
any_function find_next(_Atomic(any_function)* kept, const char* name);
/* DECLARE_REAL(read) makes libc's read() callable as REAL(read)(fd, to, n). The type of the
 * function is the one with which read() is declared. */
#define DECLARE_REAL(name) static _Atomic(any_function) real_of_##name
#define REAL(name) ((__typeof__(&name))find_next(&real_of_##name, #name))

/* Evaluates `call` with a va_list of the arguments after `format`, and returns its value. */
#define WITH_ARGUMENTS(call)                                                                       \
  va_list arguments;                                                                               \
  va_start(arguments, format);                                                                     \
  const int result = call;                                                                         \
  va_end(arguments);                                                                               \
  return result

/* ---- the job ---- */

/* Table by which operations are requested. It is null until the target's job attaches the
 * library, and never null afterwards. In a program that a target has started, it is
 * `through_target` from the beginning. */
extern _Atomic(const struct farcall_io_table*) attached;

/* Has an operation performed by the job or the target. Returns the operation's result, or -1
 * with errno. Fails with EIO if the calling thread is already inside forward(). */
int64_t forward(const struct farcall_io_request* request);
/* Notes that the text of a path begins with the path of an open folder of the host, whose number is
 * `folder`, or of none (0). forward() tells the host, which follows the folder if it was renamed.
 * Each thread knows the last two such texts. */
void begins_at(const char* text, uint64_t folder);
/* Returns the number of the folder whose path the text begins with, or 0. */
uint64_t folder_of(const char* text);
/* True while the calling thread is inside forward(). */
int is_forwarding(void);

/* Defines a function for each row of the table, such as host_open(path, flags, mode, opened).
 * The row also gives the function's parameters. */
#define DEFINE_CALL(name, traits, parameters, ...)                                                 \
  static inline int64_t host_##name parameters {                                                   \
    const struct farcall_io_request request = {.operation = farcall_io_op_##name, __VA_ARGS__};    \
    return forward(&request);                                                                      \
  }
FARCALL_IO_OPERATIONS(DEFINE_CALL)
#undef DEFINE_CALL

/* ---- programs that a target has started, and children of forks ---- */

/* Table of operations that a target performs for this process. Requests go through the target's
 * socket. */
extern const struct farcall_io_table through_target;
/* True if a target has started this process, or if it is a child of a fork. */
int is_child(void);
/* Sets the target's address, which must have the form of the variable FARCALL_IO_SOCKET. Returns
 * -1 if it has another form. */
int use_target(const char* socket);
/* Returns 1 if the absolute path is beneath a prefix in the target's address, 2 if the prefix is
 * read-only, and 0 otherwise.
 * Compares the words of the path, and opens no file. */
int is_hosts_path(const char* path);
/* Copies the longest prefix to which the absolute path leads, with a terminating zero. Returns the
 * rest of the path behind the prefix, or null if the path is not the host's. */
const char* copy_prefix(const char* path, char prefix[PATH_MAX]);
/* Finds the inherited descriptors that are placeholders of the host's files, and enters them into
 * the table. Called at the program's start. */
void adopt_descriptors(void);
/* Does the same for a descriptor that the program has received from another one. */
void adopt_received(int fd);
/* If possible, the library's own descriptors have this number or a higher one, because programs
 * close or reuse low numbers. */
enum { first_own_descriptor = 700 };
/* True for the descriptor of the library's connection to the target. If the program closes this
 * descriptor, close() fails. The program may put another file at the descriptor's number. */
int is_connection(int fd);
/* To be called before the program puts another file at the number `fd`, or closes a range of
 * numbers (-1): closes the connection if it has this number. Other threads make no new connection
 * until release_connection(). */
void hold_connection(int fd);
void release_connection(void);

/* Makes a connection to the target, calls `make`, and sends the target the descriptor that it
 * returns, as FARCALL_IO_WATCH. Does nothing if there is no target, or if `make` returns -1. */
void give_to_target(int (*make)(void));
/* With FARCALL_IO_WATCH=1, has the system report system calls of this program that name files. */
void watch_programs(void);

/* These functions run in the child of a fork. Each of them resets one part of the library. */
void client_after_fork(void);
void working_folder_after_fork(void);
void descriptors_after_fork(void);
void folders_after_fork(void);
void streams_after_fork(void);
void spawn_after_fork(void);
void report_after_fork(void);

/* ---- counts ---- */

#define FUNCTIONS(each)                                                                            \
  each(open) each(descriptor) each(close) each(read) each(write) each(lseek) each(stat)            \
      each(access) each(truncate) each(fsync) each(unlink) each(rename) each(mkdir) each(rmdir)    \
          each(readlink) each(opendir) each(readdir) each(fopen) each(dup) each(fcntl) each(ioctl) \
              each(sendfile) each(copy_file_range) each(mmap) each(freopen) each(link) each(chmod) \
                  each(chown) each(utimes) each(statfs) each(fallocate) each(xattr) each(mknod)    \
                      each(chdir) each(realpath) each(refused)
#define AS_ENUMERATOR(name) counted_##name,
enum counted { FUNCTIONS(AS_ENUMERATOR) counted_functions };

/* Reason why a call was passed on to libc. With `not_offered`, the call was refused instead. */
enum passed { before_job, other_path, other_file, not_offered, passed_reasons };

extern int reports; /* FARCALL_IO_REPORT */
void begin_report(void);
void count_forwarded(enum counted what, int64_t bytes);
void count_passed(enum counted what, enum passed why);
/* Counts a forwarded call that moves no data, and returns the call's result. */
static inline int forwarded(enum counted what, int64_t result) {
  count_forwarded(what, 0);
  return (int)result;
}
/* If the user has asked for a report, counts a call that is not forwarded. */
static inline void pass(enum counted what, enum passed why) {
  if (__builtin_expect(reports, 0)) count_passed(what, why);
}

/* ---- descriptors ---- */

/* An open file of the host, which several descriptors may represent. */
struct file {
  /* Number of descriptors that represent the file, and of calls that use it */
  _Atomic(uint32_t) uses;
  uint64_t number;    /* at the host */
  uint32_t mode;      /* as in struct stat */
  _Atomic(int) flags; /* as for F_GETFL */
  /* Copy of the placeholder while calls still run after the last close; otherwise -1. */
  _Atomic(int) kept;
  char* path; /* for a folder; owned */
  struct file* next_free;
};

enum { max_descriptors = 1 << 20 };
extern _Atomic(struct file*) files[max_descriptors];

struct file* hold(int fd);
/* Returns the file that the descriptor represents, and holds back signals. The caller must end the
 * call by done_with(). Returns null if the descriptor represents no file of the host, or was closed
 * by another thread. For descriptors of other files, the only cost is one load. */
static inline struct file* file_of(int fd) {
  if ((unsigned)fd >= max_descriptors) return NULL;
  if (atomic_load_explicit(&files[fd], memory_order_acquire) == NULL) return NULL;
  return hold(fd);
}
/* True if the descriptor represents a file of the host. */
int is_hosts_descriptor(int fd);
/* Releases one reference to the file. The last release closes the file at the host, and returns
 * the result of this close. Other releases return 0. */
int release_file(struct file* f);
/* Ends a call on a file that file_of() has returned: releases the file, lets signals through, keeps
 * errno, and returns `result`. */
int64_t done_with(struct file* f, int64_t result);
/* Makes the descriptor in `opened` represent the file that the host has opened. `path` is copied
 * if the file is a folder. Returns the descriptor. On an error, closes the descriptor and
 * returns -1. */
int use_descriptor(const struct farcall_io_opened* opened, int flags, const char* path);
/* Makes a descriptor that the program has inherited represent its file, which other descriptors
 * may represent as well. Returns -1 if there is no memory, and the descriptor is left as it is. */
int adopt_descriptor(const struct farcall_io_opened* opened, int flags, const char* path);
/* Empties the table, so that every descriptor is again only what the system knows: a socket. */
void forget_descriptors(void);
/* Removes the descriptor from the table. Returns the file that the descriptor represented, or
 * null. The caller gets the table's reference to the file. */
struct file* take_file(int fd);
/* Does the same for a descriptor that libc is about to close by a hidden call. The caller releases
 * the file afterwards. Calls that still use the file go on. */
struct file* take_to_close(int fd);
/* To be called with a new descriptor of the target's own files: drops the table's file of that
 * number, whose descriptor was closed by a way that the library does not know. Returns `fd`. */
static inline int new_of_libc(int fd) {
  if (fd < 0 || fd >= max_descriptors) return fd;
  if (__builtin_expect(atomic_load_explicit(&files[fd], memory_order_acquire) != NULL, 0)) {
    struct file* const stale = take_file(fd);
    if (stale != NULL) (void)release_file(stale);
  }
  return fd;
}

/* ---- memory and signals ---- */

/* Returns the length of a text that the program has passed, or some number above max_path if the
 * text is longer than that. Returns 0 if the text is empty, is null or cannot be read. */
size_t text_length(const char* text);
/* True if the text can be read. Otherwise sets EFAULT. */
int is_text(const char* text);
/* True if the memory can be read. Otherwise sets EFAULT. `bytes` must not be 0. */
int is_readable(const void* from, size_t bytes);
/* True if the memory may be written to, some of whose bytes change. Otherwise sets EFAULT. */
int is_space(void* to, size_t bytes);

/* Memory for a call, for instance for a path. Little memory is part of the structure. Declare a
 * variable by SPACE(name), which frees the memory at the end of its scope. A call uses at most some
 * hundred bytes of the stack, because threads and signal handlers have small stacks. */
struct space {
  char* longer;
  size_t bytes;
  _Alignas(16) char here[256];
};
#define SPACE(name)                                                                                \
  struct space name __attribute__((cleanup(leave_space)));                                         \
  name.longer = NULL
/* Returns memory of that size, whose content is lost by the next call. Returns null if the system
 * has no memory. */
char* reserve(struct space* s, size_t bytes);
void leave_space(struct space* s);
/* Returns new memory of the system, or null. */
void* system_memory(size_t bytes);
/* Returns a copy of the text in new memory of the system, or null. */
char* copy_text(const char* text);
/* Returns the memory of a copy to the system. The text must not have changed. Null is no error. */
void drop_text(char* text);
/* Buffer for the bytes of a call. The process keeps one buffer for later calls. take_buffer()
 * returns null if the system has no memory, which return_buffer() takes, too. */
enum { buffer_bytes = 1 << 20 };
char* take_buffer(void);
void return_buffer(char* buffer);

/* True if the program has set a signal handler, other than of faults. */
extern _Atomic(int) has_handlers;
int is_of_fault(int number);
/* Chooses the signals that hold_back() holds back. Called before has_handlers is set. */
void choose_signals(void);
/* Finds libc's functions for handlers. Called at the program's start, because handlers may set
 * handlers, and must not search for functions. */
void find_signal_functions(void);
/* Holds back the thread's cancellation until let_through(), and its signals if the program has set
 * a handler. Calls of both functions nest. Handlers may call functions of this library, so no
 * signal may come while the library holds a lock or waits for the host. The kernel delays signals
 * in the same way during calls on local files. */
void hold_back(void);
void let_through(void);
/* Locks a mutex that a signal handler may need. */
void lock(pthread_mutex_t* mutex);
void unlock(pthread_mutex_t* mutex);

/* ---- paths ---- */

enum { max_path = 8192 };
/* If the path is the host's, returns the absolute path, which is `path` itself or in `to`. Returns
 * null if the path is libc's, or cannot be read. A relative path begins at `folder`, as for
 * openat(). A call that is passed on to libc is counted as `what`. */
const char* hosts_path(int folder, const char* path, struct space* to, enum counted what);
/* Returns the system's name for what a descriptor refers to, with `more` bytes of memory behind it.
 * Returns null if the system does not know an absolute path. */
char* name_of_descriptor(int fd, struct space* to, size_t more);
/* Two paths of a call. */
struct both_paths {
  const char* from;
  const char* to;
  struct space from_space;
  struct space to_space;
};
/* Declares a variable whose memory is freed at the end of its scope. */
#define BOTH_PATHS(name)                                                                           \
  struct both_paths name __attribute__((cleanup(leave_both)));                                     \
  name.from_space.longer = name.to_space.longer = NULL
void leave_both(struct both_paths* paths);
/* Checks two paths. Returns 1 if both are the host's, and 0 if both are libc's. Returns -1 with
 * EXDEV if one is the host's and one is libc's, because these are two file systems. */
int both_hosts_paths(int from_folder, const char* from, int to_folder, const char* to,
                     struct both_paths* found, enum counted what);
int open_hosts(const char* absolute, int flags, mode_t mode);
/* If a path such as /dev/stdin or /dev/fd/N names a descriptor that represents a file of the
 * host, returns a copy of the descriptor. Returns -1 otherwise. Unlike with local files, the
 * copy shares the file's position. */
int open_copy(const char* path, int flags);
/* True if a call's flags are among the `known` ones. Otherwise sets EINVAL. */
int are_known(int flags, int known);
/* Resolves an absolute path of the host to its real path. Returns 0, or -1 with errno. */
int resolve_hosts(const char* absolute, char found[PATH_MAX]);
/* Removes empty words, "." and "..", each ".." with the word before it, from an absolute path. */
void simplify(char* path);

/* ---- a folder of the host as the working folder ---- */

/* If the working folder is at the host, copies the path with which the host has opened it, with a
 * terminating zero, unless the path is longer than the memory. Returns the path's length. Returns 0
 * if the working folder is the system's. */
size_t copy_working_folder(char* to, size_t bytes);
/* Returns the number at the host of the working folder that is at the host. */
uint64_t working_folder_number(void);
/* True if the path, whose first `bytes` bytes are the path of an open folder, leads to another
 * folder now, because the open one was renamed or removed. `number` is the open folder's number at
 * the host, or 0 for a path that begins with no open folder. */
int has_moved(const char* absolute, size_t bytes, uint64_t number);
/* If the working folder is at the host, returns the descriptor of its placeholder, which the
 * program must not notice. Returns -1 if the working folder is the system's. */
int working_folder_descriptor(void);
/* Moves the placeholder of the working folder to another number. Called when the program puts
 * another file at the present number. */
void move_working_folder(void);
/* Makes the system's working folder the current one again. */
void leave_working_folder(void);
/* Makes the inherited placeholder `fd` the working folder. Called if the program was started in
 * a working folder at the host. */
void adopt_working_folder(int fd, uint64_t number, const char* path);

/* ---- shared by several files ---- */

/* Reads at an offset of the file, or at its own position (FARCALL_IO_AT_POSITION). */
int64_t read_file(struct file* f, void* to, size_t bytes, off_t offset);
int64_t seek_file(struct file* f, off_t offset, int whence);
int stat_file(struct file* f, struct farcall_io_status* status);
/* Translates a mode of fopen() into flags of open(). Returns -1 and sets errno if the mode is
 * invalid. */
int flags_of(const char* mode, int* flags);
/* Returns a stream that uses the descriptor by calls such as read() and write(), and closes it at
 * the end. Returns null on an error. */
FILE* stream_of(int fd, const char* mode);
/* Returns the descriptor of a stream that stream_of() has made. Returns -1 for a stream of libc. */
int descriptor_of(FILE* file);
/* Closes the descriptor of a stream that stream_of() has made, but keeps the stream, whose later
 * calls fail with EBADF. Returns the result of fclose(). */
int close_but_keep(FILE* file);
/* Returns a pointer to the orientation of a stream that stream_of() has made. The orientation
 * has the values of fwide(), and is 0 while it is not set. Returns null for a stream of libc. */
int* orientation_of(FILE* file);
/* If `file` is libc's stdin, stdout or stderr and was replaced, returns the stream that replaces
 * it. Returns `file` otherwise. */
FILE* current_stream(FILE* file);
/* Flushes the streams on files of the host. */
void flush_streams(void);
/* Makes a stream of stream_of() read these bytes before the bytes of its file. */
void read_first(FILE* file, const char* from, size_t bytes);
/* If the descriptor is the one of stdin, stdout or stderr, replaces this stream of libc by a
 * stream that can use files of the host, and that takes over bytes which libc's has buffered. */
void prepare_standard_stream(int fd);

#endif
