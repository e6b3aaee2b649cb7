// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_FILES_IO_TABLE_H
#define FARCALL_FILES_IO_TABLE_H

#include <farcall/files/io_operations.h>

/* The interface between a target's job and libfarcall-io.so, the library that the target has
 * preloaded. The interface is in C, and neither of the two is linked with the other, because the
 * job finds farcall_io_attach() by dlsym(). */

#ifdef __cplusplus
extern "C" {
#endif

enum { FARCALL_IO_VERSION = 4 };

struct farcall_io_table {
  uint32_t version;    /* FARCALL_IO_VERSION */
  uint32_t operations; /* farcall_io_operations */

  /* Performs an operation and returns its result. Keeps errno. Any thread may call it until the
   * process ends, except in a child of a fork. */
  int64_t (*perform)(const struct farcall_io_request* request);
};

/* Type of the function farcall_io_attach() that the library exports. The job calls it with a
 * table once, before handlers run, and with null once, after the last handler. Null means that
 * the job is about to end, and makes the library write the data that streams have buffered.
 * `table` must stay valid. `socket` has the form of the variable FARCALL_IO_SOCKET: the address
 * that children of forks connect to, and the host's prefixes. Returns 0, or -1 if the table is
 * of another version. */
typedef int (*farcall_io_attach_function)(const struct farcall_io_table* table, const char* socket);
#define FARCALL_IO_ATTACH "farcall_io_attach"

/* Name of a variable of type `const uint32_t` that the library exports: its release as a number,
 * for example 0x000100 for 0.1.0. Only errors about another version show it. */
#define FARCALL_IO_RELEASE "farcall_io_release"

#ifdef __cplusplus
}
#endif

#endif
