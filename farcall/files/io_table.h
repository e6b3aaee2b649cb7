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

enum { FARCALL_IO_VERSION = 3 };

/* What stat(2) tells, in numbers of one size everywhere. Times in seconds and nanoseconds. */
struct farcall_io_status {
  uint64_t device, inode, mode, links, user, group, special;
  int64_t size, block_size, blocks;
  int64_t accessed, accessed_ns, modified, modified_ns, changed, changed_ns;
};

/* What statvfs(3) and statfs(2) tell. */
struct farcall_io_space {
  uint64_t type, block_size, fragment_size, blocks, free_blocks, available_blocks;
  uint64_t files, free_files, available_files, device, flags, longest_name;
};

/* As struct timespec: nanoseconds may be UTIME_NOW and UTIME_OMIT. */
struct farcall_io_times {
  int64_t accessed, accessed_ns, modified, modified_ns;
};

/* A file of the host that is open. */
struct farcall_io_opened {
  uint64_t file; /* its number at the host */
  uint64_t mode; /* as in farcall_io_status */
  /* Which the caller owns, with close-on-exec. It stands for the file, as io_socket.h says; or it
   * is the open file itself, which the host has passed: `file` is 0, and everything on it is
   * libc's. */
  int32_t descriptor;
};

/* Results are 0, or a number of bytes or a position, or less than 0: -errno. A function returns
 * when the host has done what it says; it may block for that long. -EIO: the host, or the job, has
 * ended. None changes errno. Flags, modes and positions are those of the system calls of the same
 * names. Any thread may call them, until the process ends; none in a child of a fork. */
struct farcall_io_table {
  uint32_t version; /* FARCALL_IO_VERSION */
  uint32_t bytes;   /* sizeof(struct farcall_io_table) */

  /* 1: the absolute path is one of the host's; 0: it is not. By its words; asks nobody. */
  int (*is_hosts)(const char* path);

  int64_t (*open)(const char* path, int flags, uint32_t mode, struct farcall_io_opened* opened);
  /* The caller has closed its descriptors of the file: where nobody else has one, it is closed, and
   * the result is the host's; otherwise it is when the last one goes. */
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
  int64_t (*link)(const char* from, const char* to, int follows_link);
  /* `content` is what the link says. */
  int64_t (*symlink)(const char* content, const char* path);
  int64_t (*allocate)(uint64_t file, int mode, int64_t offset, int64_t bytes); /* as fallocate(2) */
  /* Of the file, where `path` is null. */
  int64_t (*set_mode)(uint64_t file, const char* path, uint32_t mode);
  int64_t (*set_owner)(uint64_t file, const char* path, int follows_link, uint32_t user,
                       uint32_t group);
  int64_t (*set_times)(uint64_t file, const char* path, int follows_link,
                       const struct farcall_io_times* times);
  int64_t (*space)(uint64_t file, const char* path, struct farcall_io_space* space);
};

/* What the library exports. `table` has to stay. `socket`: where children of forks ask instead, as
 * the variable FARCALL_IO_SOCKET has it. Null: the job is about to end, and what streams hold is
 * written. A process attaches once, before handlers run, and says null once, behind them. Returns
 * 0, or -1 for another version. */
typedef int (*farcall_io_attach_function)(const struct farcall_io_table* table, const char* socket);
#define FARCALL_IO_ATTACH "farcall_io_attach"

#ifdef __cplusplus
}
#endif

#endif
