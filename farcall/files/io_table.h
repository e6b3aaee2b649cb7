#ifndef FARCALL_FILES_IO_TABLE_H
#define FARCALL_FILES_IO_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* The seam between a target's job and the library that the target has preloaded, libfarcall-io.so:
 * what the job offers, as pointers to functions. It is C, and neither side links the other: the job
 * looks for farcall_io_attach() by dlsym(). */

#ifdef __cplusplus
extern "C" {
#endif

enum { FARCALL_IO_VERSION = 1 };

/* What stat(2) tells, in numbers of one size everywhere. Times in seconds and nanoseconds. */
struct farcall_io_status {
  uint64_t device, inode, mode, links, user, group, special;
  int64_t size, block_size, blocks;
  int64_t accessed, accessed_ns, modified, modified_ns, changed, changed_ns;
};

/* A file of the host that is open. */
struct farcall_io_opened {
  uint64_t file; /* its number at the host */
  uint64_t mode; /* as in farcall_io_status */
};

/* Results are 0, or a number of bytes or a position, or less than 0: -errno. A function returns
 * when the host has done what it says; it may block for that long. -EIO: the host, or the job, has
 * ended. None changes errno. Flags, modes and positions are those of the system calls of the same
 * names. Any thread may call them, until the process ends; in a child of a fork, only is_hosts().
 */
struct farcall_io_table {
  uint32_t version; /* FARCALL_IO_VERSION */
  uint32_t bytes;   /* sizeof(struct farcall_io_table) */

  /* 1: the absolute path is one of the host's; 0: it is not. By its words; asks nobody. */
  int (*is_hosts)(const char* path);

  int64_t (*open)(const char* path, int flags, uint32_t mode, struct farcall_io_opened* opened);
  int64_t (*close)(uint64_t file);
  /* At the file's position, which moves. */
  int64_t (*read)(uint64_t file, void* to, size_t bytes);
  int64_t (*write)(uint64_t file, const void* from, size_t bytes);
  int64_t (*pread)(uint64_t file, void* to, size_t bytes, int64_t offset);
  int64_t (*pwrite)(uint64_t file, const void* from, size_t bytes, int64_t offset);
  int64_t (*seek)(uint64_t file, int64_t offset, int whence);
  int64_t (*set_flags)(uint64_t file, int flags); /* as F_SETFL */
  int64_t (*fstat)(uint64_t file, struct farcall_io_status* status);
  int64_t (*ftruncate)(uint64_t file, int64_t size);
  int64_t (*fsync)(uint64_t file, int data_only);
  /* The next entries of a folder, as many as fit, in the form of getdents64(2). 0: no more. */
  int64_t (*list)(uint64_t file, void* to, size_t bytes);

  int64_t (*stat)(const char* path, int follows_link, struct farcall_io_status* status);
  int64_t (*access)(const char* path, int mode);
  int64_t (*truncate)(const char* path, int64_t size);
  int64_t (*unlink)(const char* path);
  int64_t (*rmdir)(const char* path);
  int64_t (*mkdir)(const char* path, uint32_t mode);
  int64_t (*rename)(const char* from, const char* to, uint32_t flags);
  /* The target of a link, not terminated, as readlink(2). */
  int64_t (*read_link)(const char* path, char* to, size_t bytes);
};

/* What the library exports. `table` has to stay. Null: the job is about to end, and what streams
 * hold is written. A process attaches once, before handlers run, and says null once, behind them.
 * Returns 0, or -1 for another version. */
typedef int (*farcall_io_attach_function)(const struct farcall_io_table* table);
#define FARCALL_IO_ATTACH "farcall_io_attach"

#ifdef __cplusplus
}
#endif

#endif
