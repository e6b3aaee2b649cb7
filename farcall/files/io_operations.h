// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_FILES_IO_OPERATIONS_H
#define FARCALL_FILES_IO_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <string_view>
#else
#include <string.h>
#endif

/* The table of operations on files of the host. Three things are made from a row: the functions
 * by which a target requests the operation (file_calls.hpp, tools/io/io.h), the operation's
 * number in messages, and the declaration of the function by which the host performs the
 * operation (host_files.hpp). To add an operation, add a row at the end, and write
 * host_files::NAME(). */

/* Type of text parameters of the functions, and of texts in requests. */
#ifdef __cplusplus
using farcall_io_string = std::string_view;
/* clang-format off */
#define FARCALL_IO_TEXT(string) {(string).data(), (string).size()}
#define FARCALL_IO_ZERO {}
/* clang-format on */
#else
typedef const char* farcall_io_string; /* a null pointer means an empty text */
#define FARCALL_IO_TEXT(string) {(string), (string) != NULL ? strlen(string) : 0}
#define FARCALL_IO_ZERO
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of stat(2), with integers of the same size on all architectures. Times are seconds and
 * nanoseconds. */
struct farcall_io_status {
  uint64_t device, inode, mode, links, user, group, special;
  int64_t size, block_size, blocks;
  int64_t accessed, accessed_ns, modified, modified_ns, changed, changed_ns;
};

/* Results of statvfs(3) and statfs(2). */
struct farcall_io_space {
  uint64_t type, block_size, fragment_size, blocks, free_blocks, available_blocks;
  uint64_t files, free_files, available_files, device, flags, max_name;
};

/* Times of a file, like struct timespec; nanoseconds may be UTIME_NOW and UTIME_OMIT. */
struct farcall_io_times {
  int64_t accessed, accessed_ns, modified, modified_ns;
};

/* Result of opening a file of the host. */
struct farcall_io_opened {
  uint64_t file; /* the file's number at the host */
  uint64_t mode; /* as in farcall_io_status */
  /* Descriptor with close-on-exec, owned by the caller. It is usually a placeholder for the file
   * (io_socket.h). If the host has passed the open file itself, `file` is 0, and libc performs all
   * operations on the descriptor. */
  int32_t descriptor;
};

/* Result of opening a file of the host, with the file's status. Open returns it if the request has
 * space for it. */
struct farcall_io_opened_status {
  struct farcall_io_opened opened;
  struct farcall_io_status status;
};

/* Beginning of one entry of a folder, as list_status returns it. After it come the `bytes` bytes of
 * the name, and up to 7 bytes, so that the next entry begins at a multiple of 8 bytes. */
struct farcall_io_entry {
  int64_t next;   /* position of the next entry in the folder */
  uint64_t bytes; /* of the name */
  /* Status of the file, without following links. The entries . and .. have inode and type only, as
   * do files whose status the host cannot get; their number of links is 0. */
  struct farcall_io_status status;
};

/* Kinds of requests for locks. */
enum {
  FARCALL_IO_LOCK_TEST,  /* F_GETLK of fcntl(2) */
  FARCALL_IO_LOCK_SET,   /* F_SETLK of fcntl(2), which never waits */
  FARCALL_IO_LOCK_WHOLE, /* flock(2) with LOCK_NB */
};

/* A lock of a range of a file, like struct flock. Locks of different owners exclude each other. An
 * owner is a process, or an open file. */
struct farcall_io_lock {
  uint64_t owner;
  int64_t start, bytes; /* 0 bytes: up to the end of the file */
  int64_t type;         /* F_RDLCK, F_WRLCK or F_UNLCK */
};

/* Source of a copy: an open file of the host, and the position of the first byte. */
struct farcall_io_source {
  uint64_t file;
  int64_t offset;
};

/* A text, given by its characters and their number, without a terminating zero. */
struct farcall_io_text {
  const char* at;
  size_t bytes;
};

/* A request for one operation. Members that the operation's row does not name are 0. The caller
 * owns the memory that the request points to. */
struct farcall_io_request {
  uint32_t operation FARCALL_IO_ZERO; /* enum farcall_io_operation */
  int32_t flags FARCALL_IO_ZERO;
  uint32_t mode FARCALL_IO_ZERO;
  /* Number of an open file. With a path, the number of the open folder whose path it begins with,
   * or 0: the host follows the folder if it was renamed. For rename and link, `offset` is the same
   * for `to`. */
  uint64_t file FARCALL_IO_ZERO;
  int64_t offset FARCALL_IO_ZERO;
  uint64_t bytes FARCALL_IO_ZERO;
  struct farcall_io_text path FARCALL_IO_ZERO;
  struct farcall_io_text to FARCALL_IO_ZERO;
  const void* data FARCALL_IO_ZERO; /* read by the operation */
  size_t data_bytes FARCALL_IO_ZERO;
  void* result FARCALL_IO_ZERO; /* written by the operation */
  size_t result_bytes FARCALL_IO_ZERO;
};

/* Value of an offset that means the file's own position, which the operation advances. */
enum { FARCALL_IO_AT_POSITION = -1 };

/* Traits of operations. */
enum {
  /* With FARCALL_IO_ON_FILE, the operation concerns the open file with the number `file`. With
   * FARCALL_IO_ON_PATH, it concerns the file with the path `path`. With both, it concerns the
   * path, or the open file if the path is empty. */
  FARCALL_IO_ON_FILE = 1,
  FARCALL_IO_ON_PATH = 2,
  /* The operation changes the file's content in another way than a write, so that bytes that
   * were read ahead must be dropped. */
  FARCALL_IO_CHANGES = 4,
  /* If an earlier write to the file has failed, the operation returns the error of this write. */
  FARCALL_IO_REPORTS = 8,
  /* The operation always fills `result` completely if it succeeds. Operations without this trait
   * return the number of bytes that they have put into `result`. */
  FARCALL_IO_FILLS = 16
};

/* Table with one row for each operation. A row has the operation's name, its traits, its
 * parameters, and the members of the request in which the parameters are stored. Messages name
 * an operation by the number of its row.
 *
 * If an operation succeeds, it returns 0, a number of bytes or a position. Otherwise it returns
 * -errno, which is -EIO if the host has failed or the job has ended. An operation may block, and
 * has been carried out when it returns. Flags, modes and positions are the numbers that the
 * system call of the same name takes.
 *
 *   close      tells the host that the caller has closed its descriptors of the file; the host
 *              closes the file with the last descriptor of all programs; the result is the host's
 *              if the caller had the last descriptor
 *   set_flags  F_SETFL of fcntl(2)
 *   list       puts as many entries of a folder as fit into the result, in the format of
 *              getdents64(2); returns 0 at the end
 *   allocate   fallocate(2)
 *   read_link  puts the text of a symbolic link into the result, without a terminating zero
 *   symlink    `content` is the text of the new symbolic link
 *   set_mode   returns -EPERM for setuid and setgid, with which a program runs as its owner
 *   list_status  puts as many entries of a folder as fit into the result, each as a
 *              farcall_io_entry; returns 0 at the end; begins at `offset`, or at the position
 *   link_open  makes a name for an open file, for instance for one that has none
 *   reopen     opens the file of an open file again, which may have no name any more
 *   lock       `command` is one of the kinds of requests for locks; `found` is a lock that
 *              excludes the requested one, or has the type F_UNLCK
 *   copy_range copies bytes from another open file, as copy_file_range(2) does */
/* clang-format off */
#define FARCALL_IO_OPERATIONS(row)                                                                 \
  row(open, FARCALL_IO_ON_PATH | FARCALL_IO_FILLS,                                                 \
      (farcall_io_string path, int flags, uint32_t mode, struct farcall_io_opened* opened),        \
      .flags = flags, .mode = mode, .path = FARCALL_IO_TEXT(path), .result = opened,               \
      .result_bytes = sizeof *opened)                                                              \
  row(close, FARCALL_IO_ON_FILE | FARCALL_IO_REPORTS, (uint64_t file), .file = file)               \
  row(read, FARCALL_IO_ON_FILE, (uint64_t file, void* to, size_t bytes, int64_t offset),           \
      .file = file, .offset = offset, .bytes = bytes, .result = to, .result_bytes = bytes)         \
  row(write, FARCALL_IO_ON_FILE, (uint64_t file, const void* from, size_t bytes, int64_t offset),  \
      .file = file, .offset = offset, .data = from, .data_bytes = bytes)                           \
  row(seek, FARCALL_IO_ON_FILE, (uint64_t file, int64_t offset, int whence), .flags = whence,      \
      .file = file, .offset = offset)                                                              \
  row(set_flags, FARCALL_IO_ON_FILE, (uint64_t file, int flags), .flags = flags, .file = file)     \
  row(fstat, FARCALL_IO_ON_FILE | FARCALL_IO_FILLS,                                                \
      (uint64_t file, struct farcall_io_status* status), .file = file, .result = status,           \
      .result_bytes = sizeof *status)                                                              \
  row(ftruncate, FARCALL_IO_ON_FILE | FARCALL_IO_CHANGES | FARCALL_IO_REPORTS,                     \
      (uint64_t file, int64_t size), .file = file, .offset = size)                                 \
  row(fsync, FARCALL_IO_ON_FILE | FARCALL_IO_REPORTS, (uint64_t file, int data_only),              \
      .flags = data_only, .file = file)                                                            \
  row(list, FARCALL_IO_ON_FILE, (uint64_t file, void* to, size_t bytes), .file = file,             \
      .bytes = bytes, .result = to, .result_bytes = bytes)                                         \
  row(allocate, FARCALL_IO_ON_FILE | FARCALL_IO_CHANGES,                                           \
      (uint64_t file, int mode, int64_t offset, uint64_t bytes), .flags = mode, .file = file,      \
      .offset = offset, .bytes = bytes)                                                            \
  row(set_mode, FARCALL_IO_ON_FILE | FARCALL_IO_ON_PATH,                                           \
      (uint64_t file, farcall_io_string path, uint32_t mode), .flags = 1, .mode = mode,            \
      .file = file, .path = FARCALL_IO_TEXT(path))                                                 \
  row(set_owner, FARCALL_IO_ON_FILE | FARCALL_IO_ON_PATH,                                          \
      (uint64_t file, farcall_io_string path, int follows_link, uint32_t user, uint32_t group),    \
      .flags = follows_link, .file = file, .offset = group, .bytes = user,                         \
      .path = FARCALL_IO_TEXT(path))                                                               \
  row(set_times, FARCALL_IO_ON_FILE | FARCALL_IO_ON_PATH,                                          \
      (uint64_t file, farcall_io_string path, int follows_link,                                    \
       const struct farcall_io_times* times),                                                      \
      .flags = follows_link, .file = file, .path = FARCALL_IO_TEXT(path), .data = times,           \
      .data_bytes = sizeof *times)                                                                 \
  row(space, FARCALL_IO_ON_FILE | FARCALL_IO_ON_PATH | FARCALL_IO_FILLS,                           \
      (uint64_t file, farcall_io_string path, struct farcall_io_space* space), .flags = 1,         \
      .file = file, .path = FARCALL_IO_TEXT(path), .result = space, .result_bytes = sizeof *space) \
  row(stat, FARCALL_IO_ON_PATH | FARCALL_IO_FILLS,                                                 \
      (farcall_io_string path, int follows_link, struct farcall_io_status* status),                \
      .flags = follows_link, .path = FARCALL_IO_TEXT(path), .result = status,                      \
      .result_bytes = sizeof *status)                                                              \
  row(access, FARCALL_IO_ON_PATH, (farcall_io_string path, int mode), .flags = mode,               \
      .path = FARCALL_IO_TEXT(path))                                                               \
  row(truncate, FARCALL_IO_ON_PATH | FARCALL_IO_CHANGES, (farcall_io_string path, int64_t size),   \
      .offset = size, .path = FARCALL_IO_TEXT(path))                                               \
  row(unlink, FARCALL_IO_ON_PATH, (farcall_io_string path), .path = FARCALL_IO_TEXT(path))         \
  row(rmdir, FARCALL_IO_ON_PATH, (farcall_io_string path), .path = FARCALL_IO_TEXT(path))          \
  row(mkdir, FARCALL_IO_ON_PATH, (farcall_io_string path, uint32_t mode), .mode = mode,            \
      .path = FARCALL_IO_TEXT(path))                                                               \
  row(rename, FARCALL_IO_ON_PATH, (farcall_io_string from, farcall_io_string to, int flags),       \
      .flags = flags, .path = FARCALL_IO_TEXT(from), .to = FARCALL_IO_TEXT(to))                    \
  row(read_link, FARCALL_IO_ON_PATH, (farcall_io_string path, char* to, size_t bytes),             \
      .bytes = bytes, .path = FARCALL_IO_TEXT(path), .result = to, .result_bytes = bytes)          \
  row(link, FARCALL_IO_ON_PATH,                                                                    \
      (farcall_io_string from, farcall_io_string to, int follows_link), .flags = follows_link,     \
      .path = FARCALL_IO_TEXT(from), .to = FARCALL_IO_TEXT(to))                                    \
  row(symlink, FARCALL_IO_ON_PATH, (farcall_io_string content, farcall_io_string path),            \
      .path = FARCALL_IO_TEXT(path), .to = FARCALL_IO_TEXT(content))                               \
  row(list_status, FARCALL_IO_ON_FILE, (uint64_t file, void* to, size_t bytes, int64_t offset),    \
      .file = file, .offset = offset, .bytes = bytes, .result = to, .result_bytes = bytes)         \
  row(link_open, FARCALL_IO_ON_FILE, (uint64_t file, farcall_io_string to), .file = file,          \
      .path = FARCALL_IO_TEXT(to))                                                                 \
  row(lock, FARCALL_IO_ON_FILE | FARCALL_IO_CHANGES | FARCALL_IO_FILLS,                            \
      (uint64_t file, int command, const struct farcall_io_lock* lock,                             \
       struct farcall_io_lock* found),                                                             \
      .flags = command, .file = file, .data = lock, .data_bytes = sizeof *lock, .result = found,   \
      .result_bytes = sizeof *found)                                                               \
  row(copy_range, FARCALL_IO_ON_FILE | FARCALL_IO_CHANGES | FARCALL_IO_REPORTS,                    \
      (uint64_t file, int64_t offset, uint64_t bytes, const struct farcall_io_source* from),       \
      .file = file, .offset = offset, .bytes = bytes, .data = from, .data_bytes = sizeof *from)    \
  row(reopen, FARCALL_IO_ON_FILE | FARCALL_IO_FILLS,                                               \
      (uint64_t file, int flags, struct farcall_io_opened* opened), .flags = flags, .file = file,  \
      .result = opened, .result_bytes = sizeof *opened)
/* clang-format on */

#define FARCALL_IO_NUMBER(name, ...) farcall_io_op_##name,
/* clang-format off */
enum farcall_io_operation {
  FARCALL_IO_OPERATIONS(FARCALL_IO_NUMBER)
  farcall_io_operations /* the number of operations */
};
/* clang-format on */
#undef FARCALL_IO_NUMBER

#ifdef __cplusplus
}
#endif

#endif
