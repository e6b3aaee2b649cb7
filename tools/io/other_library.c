// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/io_table.h>

/* Takes the place of libfarcall-io.so in tests: a library of another release, which refuses the
 * table of this one. Built with OTHER_RELEASE, it names its release. */

#define EXPORT __attribute__((visibility("default")))

EXPORT int farcall_io_attach(const struct farcall_io_table* table, const char* socket);
int farcall_io_attach(const struct farcall_io_table* table, const char* socket) {
  (void)socket;
  return table == NULL ? 0 : -1;
}

#ifdef OTHER_RELEASE
extern EXPORT const uint32_t farcall_io_release;
const uint32_t farcall_io_release = OTHER_RELEASE;
#endif
