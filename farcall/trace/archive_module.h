#ifndef FARCALL_TRACE_ARCHIVE_MODULE_H
#define FARCALL_TRACE_ARCHIVE_MODULE_H

#include <stddef.h>
#include <stdint.h>

/// What a timeline in OTF2 is handed over as to the module that writes it (libfarcall-otf2.so), so
/// that OTF2's library is needed only there. See archive.hpp for what it means. Plain C: a module
/// goes with programs of any standard library.

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
  uint32_t role; ///< 0 call, 1 handler, 2 wait, 3 copy, 4 range
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

/// Writes FOLDER/NAME.otf2 and what belongs to it; nothing of that name may be there. Null, or why
/// it failed: valid until the next call of the thread.
typedef const char* farcall_archive_writer(const struct farcall_archive* from, const char* folder,
                                           const char* name);

/// Of type farcall_archive_writer; the number changes with these structures.
#define FARCALL_ARCHIVE_WRITER farcall_write_archive_1
#define FARCALL_ARCHIVE_WRITER_SYMBOL "farcall_write_archive_1"

#ifdef __cplusplus
}
#endif

#endif
