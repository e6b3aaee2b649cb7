// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nodes.hpp"

#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include <linux/fuse.h>
#include <sys/types.h>
#include <sys/uio.h>

/// Passthrough (FUSE_PASSTHROUGH, Linux 6.9): the system itself reads and writes the host's file if
/// the host is on this machine and has passed the open file. libfuse 3.14 and Debian's headers are
/// older than this feature.
namespace farcall::mount {

/// Number by which the system knows a file that it reads and writes itself; 0 for none.
using backing_id = std::int32_t;

/// The files of one mount that the system reads and writes itself. All open files of one FUSE node
/// must have the same number, or all must have none. Any thread may use this object.
class backing_files {
 public:
  /// `device` is the mount's, and must stay open.
  explicit backing_files(int device) noexcept : device_(device) {}

  /// Counts an open file of a FUSE node. `passed` is the host's open file, or empty. Returns the
  /// number for the reply to the open. The caller calls leave() when the file is closed.
  [[nodiscard]] backing_id enter(node_number node, const unique_fd& passed);
  void leave(node_number node) noexcept;

 private:
  struct use {
    backing_id id = 0;
    std::size_t count = 0;
  };
  int device_;
  std::mutex mutex_;
  std::unordered_map<node_number, use> uses_;
};

/// Changes the reply of the calling thread to an open, so that the system reads and writes the file
/// with this number itself. Does nothing if `id` is 0.
void set_backing(fuse_open_out& reply, backing_id id) noexcept;
/// Does the same as set_backing() to the next reply that the calling thread writes by libfuse.
void set_backing_of_next_reply(backing_id id) noexcept;

/// Notes that the request which the calling thread is about to serve is the system's first one. Its
/// reply asks for passthrough, and for shared mappings of files that are not cached, if the system
/// offers them.
void note_first_request(const fuse_init_in& offered) noexcept;

/// Additions to mounts that the system offers.
struct additions {
  std::string why_no_passthrough; ///< empty if the system reads and writes passed files itself
  bool has_ring = false;          ///< true if requests may come by io_uring (FUSE_OVER_IO_URING)
};

/// Serves the first request of a new mount in order to learn the additions. Reads from the device,
/// of which the caller is the only user, and the caller gives the mount up.
[[nodiscard]] additions additions_of(int device);

/// Writes a reply for libfuse, with the changes of set_backing_of_next_reply() and
/// note_first_request().
ssize_t write_reply(int device, iovec* parts, int count, void* user) noexcept;
ssize_t read_request(int device, void* to, std::size_t bytes, void* user) noexcept;

} // namespace farcall::mount
