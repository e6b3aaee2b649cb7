// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_TRACE_ARCHIVE_MODULE_H
#define FARCALL_TRACE_ARCHIVE_MODULE_H

#include <stddef.h>
#include <stdint.h>

/// C interface of the module that writes timelines as OTF2 archives (libfarcall-otf2.so). The
/// module alone needs OTF2's library. archive.hpp explains the fields. The interface is plain C, so
/// that the module works in programs with any C++ standard library.

#ifdef __cplusplus
extern "C" {
#endif

struct farcall_archive_event {
  uint64_t ns;
  uint32_t type; ///< 0 enter, 1 leave, 2 send, 3 receive
  uint32_t region;
  uint32_t peer;
  uint32_t tag;
};

struct farcall_archive_location {
  const char* name;
  size_t process;
  const struct farcall_archive_event* events;
  size_t count;
};

struct farcall_archive_region {
  const char* name;
  uint32_t role; ///< role of the region: 0 call, 1 handler, 2 wait, 3 copy, 4 range
};

struct farcall_archive {
  const char* const* processes;
  size_t process_count;
  const struct farcall_archive_location* locations;
  size_t location_count;
  const struct farcall_archive_region* regions;
  size_t region_count;
  uint64_t length_ns;
};

/// Writes an archive: FOLDER/NAME.otf2 and the other files that belong to it. The file
/// FOLDER/NAME.otf2 must not exist before. Returns null if the archive was written. Otherwise
/// returns the reason of the failure, a text that is valid until the thread calls the function
/// again.
typedef const char* farcall_archive_writer(const struct farcall_archive* from, const char* folder,
                                           const char* name);

/// Name by which a module exports its function of type farcall_archive_writer. The number in the
/// name changes when the structures of this header change, so that a module for other structures is
/// not found.
#define FARCALL_ARCHIVE_WRITER farcall_write_archive_1
#define FARCALL_ARCHIVE_WRITER_SYMBOL "farcall_write_archive_1"

#ifdef __cplusplus
}
#endif

#endif
