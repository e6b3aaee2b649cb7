#ifndef FARCALL_FILES_IO_SOCKET_H
#define FARCALL_FILES_IO_SOCKET_H

#include <stdint.h>

/* The seam between a target's job and the programs that the target starts, which are clients of a
 * Unix stream socket of the target. Both ends are on one machine, and built from one version: the
 * numbers are the system's. */

#ifdef __cplusplus
extern "C" {
#endif

/* The environment variable by which programs find the socket: its abstract name, a comma, and the
 * host's prefixes, as text_of() of access.hpp gives them. */
#define FARCALL_IO_SOCKET "FARCALL_IO_SOCKET"

enum { FARCALL_IO_SOCKET_VERSION = 1 };

/* Most bytes of one path, and of what one request reads or writes. */
enum { FARCALL_IO_LONGEST_PATH = 8192, FARCALL_IO_LARGEST_PIECE = 1 << 20 };

/* The functions of struct farcall_io_table. */
enum farcall_io_operation {
  FARCALL_IO_OPEN,
  FARCALL_IO_CLOSE,
  FARCALL_IO_READ,
  FARCALL_IO_WRITE,
  FARCALL_IO_PREAD,
  FARCALL_IO_PWRITE,
  FARCALL_IO_SEEK,
  FARCALL_IO_SET_FLAGS,
  FARCALL_IO_FSTAT,
  FARCALL_IO_FTRUNCATE,
  FARCALL_IO_FSYNC,
  FARCALL_IO_LIST,
  FARCALL_IO_STAT,
  FARCALL_IO_ACCESS,
  FARCALL_IO_TRUNCATE,
  FARCALL_IO_UNLINK,
  FARCALL_IO_RMDIR,
  FARCALL_IO_MKDIR,
  FARCALL_IO_RENAME,
  FARCALL_IO_READ_LINK,
  FARCALL_IO_LINK,
  FARCALL_IO_SYMLINK,
  FARCALL_IO_ALLOCATE,
  FARCALL_IO_SET_MODE, /* of the file, where there is no path, as the next ones */
  FARCALL_IO_SET_OWNER,
  FARCALL_IO_SET_TIMES,
  FARCALL_IO_SPACE,
  FARCALL_IO_OPERATIONS
};

/* What a client sends. Behind it: the path, without a zero, the second path, and the bytes to be
 * written, or a struct farcall_io_times. Members that an operation does not need are 0. */
struct farcall_io_request {
  uint32_t version; /* FARCALL_IO_SOCKET_VERSION */
  uint32_t operation;
  uint32_t path_bytes;
  uint32_t to_bytes;
  uint32_t
      flags; /* of open() and rename(); whence, a mode of access(), whether links are followed */
  uint32_t mode;
  uint32_t user, group;
  uint64_t file;
  int64_t offset; /* a position, a size */
  uint64_t bytes; /* that follow; or most that are wanted; or to be allocated */
};

/* What it gets. Behind it: what was read, a struct farcall_io_status, and the like.
 * With the first byte of an answer to FARCALL_IO_OPEN comes the descriptor (SCM_RIGHTS). */
struct farcall_io_answer {
  int64_t result; /* as in struct farcall_io_table */
  uint64_t bytes; /* that follow */
};

/* Among the flags of open(): other programs inherit the descriptor as their working folder. */
enum { FARCALL_IO_WORKING_FOLDER = 1 << 30 };

/* Most bytes of the socket's abstract name, with a zero. */
enum { FARCALL_IO_SOCKET_NAME = 16 };

/* A descriptor of a host's file is one end of a pair of stream sockets, whose other end the target
 * has: so the kernel counts who has it, through dup, fork and exec, and the target learns when
 * nobody does. A line waits in it, is never taken out, and tells a program that inherits the
 * descriptor what it stands for: version, the socket's name, the file's mode as in struct
 * farcall_io_status, flags as of open(), its number, and the path of a folder. A program that knows
 * nothing of all that reads the line, and then gets EAGAIN; writing gives it EPIPE. */
#define FARCALL_IO_PLACEHOLDER_TEXT "farcall: a file of the host, which this program cannot use ("
#define FARCALL_IO_PLACEHOLDER_END ")\n"

#ifdef __cplusplus
}
#endif

#endif
