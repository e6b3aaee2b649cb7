// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_FILES_IO_SOCKET_H
#define FARCALL_FILES_IO_SOCKET_H

#include <stdint.h>

/* The protocol between a target and the programs that the target starts. These programs are
 * clients of a Unix stream socket of the target. Both ends are on one machine, so flags and errno
 * are the system's numbers. A target refuses clients that speak another version of the protocol. */

#ifdef __cplusplus
extern "C" {
#endif

/* Environment variable by which programs find the socket. Its value is the socket's abstract name,
 * a comma, and the host's prefixes as text_of() of access.hpp writes them. */
#define FARCALL_IO_SOCKET "FARCALL_IO_SOCKET"

enum { FARCALL_IO_SOCKET_VERSION = 5 };
/* First version in which messages name the sender's release. All later versions keep the first two
 * members of struct farcall_io_message. */
enum { FARCALL_IO_FIRST_VERSION_WITH_RELEASE = 5 };

/* Maximum number of bytes of one path, and of the data that one request sends or receives. */
enum { FARCALL_IO_LONGEST_PATH = 8192, FARCALL_IO_LARGEST_PIECE = 1 << 20 };

/* Beginning of a client's message. Its members have the same meaning as the members of struct
 * farcall_io_request. After it come the path, the text `to` and the data. */
struct farcall_io_message {
  uint32_t version; /* FARCALL_IO_SOCKET_VERSION */
  uint32_t release; /* of the sender's farcall: 0x000100 is 0.1.0 */
  uint32_t operation;
  int32_t flags;
  uint32_t mode;
  uint32_t unused; /* 0 */
  uint64_t file;
  int64_t offset;
  uint64_t bytes;
  uint64_t path_bytes, to_bytes, data_bytes;
  uint64_t result_bytes; /* maximum number of bytes that the reply may have */
  /* Positions of the data and of the result in the memory that client and target share. */
  uint64_t data_at, result_at;
};

/* Requests of a mount's helper that are no operations on files. The first message of each of its
 * connections is FARCALL_IO_SHARE. It carries the descriptor of a memory file that cannot shrink
 * (SCM_RIGHTS), of `bytes` bytes. From then on the connection differs in three ways: data and
 * results are in this memory and not in the messages, files get no placeholders and are closed by
 * close alone, and a write returns before the host has done it. If the host can pass open files to
 * this machine, the first byte of the reply to an open carries the host's open file.
 * FARCALL_IO_FLUSH waits for the writes to `file`, and returns their first error. FARCALL_IO_SERVE
 * carries two descriptors: the device of a mount, from which the target then takes the system's
 * requests, and one end of a socket (SOCK_SEQPACKET), by which the target sends the helper all
 * requests except reads and writes. The system then knows an open file by the file's number at the
 * host. */
enum { FARCALL_IO_SHARE = 1 << 16, FARCALL_IO_FLUSH, FARCALL_IO_SERVE };

/* Request of a program without a reply. It carries a descriptor by which the system reports the
 * program's system calls (program_watch.hpp). */
enum { FARCALL_IO_WATCH = FARCALL_IO_SERVE + 1 };

/* Flag of a read by a mount's helper, and of FARCALL_IO_SERVE: the target does not read ahead,
 * because the system does. */
enum { FARCALL_IO_NOT_AHEAD = 1 };

/* Environment variable by which a target finds the helper that farcall-mount has started: the
 * number of the descriptor of a socket, or the reason why there is none. The target sends one
 * message: the value of FARCALL_IO_SOCKET, a zero byte, and the value of the setting
 * host-files-cache. The helper mounts the prefixes and replies by one message, a text with a
 * terminating zero byte. It is empty on success and otherwise says why nothing is mounted. */
#define FARCALL_IO_MOUNT "FARCALL_IO_MOUNT"

/* Beginnings of the lines that `farcall-mount --check` prints on a machine that allows mounts.
 * After the first one comes the reason why the system does not read and write passed files itself,
 * or nothing; after the second one, "yes" if the system offers requests by io_uring, or "no". */
#define FARCALL_IO_NO_PASSTHROUGH "no passthrough: "
#define FARCALL_IO_RING "io_uring: "

/* Beginning of a reply. After it come the bytes of the operation's result. The first byte of the
 * reply to an open carries the descriptor (SCM_RIGHTS). */
struct farcall_io_reply {
  int64_t result; /* result of the operation */
  uint64_t bytes; /* number of bytes that follow the reply */
};

/* Flag of an open whose descriptor stands for the program's working folder. Programs that this
 * program starts inherit the descriptor. */
enum { FARCALL_IO_WORKING_FOLDER = 1 << 30 };

/* Maximum number of bytes of the socket's abstract name, with its terminating zero. */
enum { FARCALL_IO_SOCKET_NAME = 16 };

/* A program's descriptor of a host's file is one end of a pair of stream sockets. The target
 * holds the other end. So the kernel counts the descriptors, through dup, fork and exec, and the
 * target notices when the last one is closed. The target also writes a line of text into the
 * socket, which stays there and is never removed. From the line, a program that inherits the
 * descriptor learns which file this is. The line has the protocol's version, the socket's name,
 * the file's mode as in struct farcall_io_status, flags as of open(), the file's number, and the
 * path if the file is a folder. A program without the library reads the line, and gets EAGAIN
 * for the next read; if it writes, it gets EPIPE. */
#define FARCALL_IO_PLACEHOLDER_TEXT "farcall: a file of the host, which this program cannot use ("
#define FARCALL_IO_PLACEHOLDER_END ")\n"

#ifdef __cplusplus
}
#endif

#endif
