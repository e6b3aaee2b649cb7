// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mounted_prefix.hpp"
#include "waiting_requests.hpp"

#include <farcall/files/io_operations.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>

namespace farcall::mount {

inline mounted_prefix& prefix_of(fuse_req_t request) noexcept {
  return *static_cast<mounted_prefix*>(::fuse_req_userdata(request));
}

/// Returns the errno of a result, which is 0, a number of bytes, or -errno. Returns EIO for numbers
/// that a host's file system uses and the system accepts from no one.
inline int errno_of(std::int64_t result) noexcept {
  constexpr std::int64_t most = 511;
  return result >= 0 ? 0 : result >= -most ? static_cast<int>(-result) : EIO;
}

/// Replies the error of an operation, or success. `result` is 0, a number of bytes, or -errno.
inline void reply_result(fuse_req_t request, std::int64_t result) noexcept {
  (void)::fuse_reply_err(request, errno_of(result));
}

/// Calls reply(f()). If f() returns `not_yet`, calls f() again, with pauses, on the thread of
/// requests that wait. If the program is interrupted or killed, calls reply(-EINTR). Both functions
/// are copied.
template <class F, class R>
void reply_when_ready(fuse_req_t request, std::int64_t not_yet, F f, R reply) {
  const std::int64_t first = f();
  if (first != not_yet) return reply(first);
  constexpr waiting_requests::pauses how_long{std::chrono::microseconds(500),
                                              std::chrono::milliseconds(20)};
  prefix_of(request).waiting().add(
      request, how_long,
      [not_yet, f = std::move(f), reply = std::move(reply)](bool is_interrupted) mutable {
        const std::int64_t result = is_interrupted ? -EINTR : f();
        if (result == not_yet) return false;
        reply(result);
        return true;
      });
}

/// Returns the error for an operation on a file whose path is not found any more. The system then
/// looks for the path again.
inline std::int64_t stale_if_gone(std::int64_t result) noexcept {
  return result == -ENOENT ? -ESTALE : result;
}

/// Returns a status as the system shows it. Devices and pipes that a prefix names look like regular
/// files, because the system would use devices and pipes of this machine otherwise.
[[nodiscard]] struct stat shown_status(const mounted_prefix& of,
                                       const farcall_io_status& s) noexcept;

/// Returns the reply to a request that has found or made a file.
[[nodiscard]] fuse_entry_param entry_of(const mounted_prefix& of, node_number node,
                                        const farcall_io_status& status) noexcept;

/// Returns f(file, path) for an open file of a node, with an empty path. If the node has no open
/// file, returns f(0, path) for its path, or -ESTALE if it has none.
template <class F>
std::int64_t on_node(mounted_prefix& of, node_number node, const F& f) {
  std::uint64_t last = 0;
  for (auto file = of.nodes().open_file(node); file && *file != last;
       file = of.nodes().open_file(node)) {
    const std::int64_t result = f(*file, std::string());
    // Another request may have closed the file in the meantime.
    if (result != -EBADF) return result;
    last = *file;
  }
  const auto path = of.nodes().path_of(node);
  return path ? stale_if_gone(f(0, *path)) : -ESTALE;
}

/// Asks the host for the status of a file that the system knows. Uses an open file if there is one,
/// because the file may have no name any more. Without both, uses the last known status of a file
/// that a program of this mount has removed. Returns 0, or -errno.
[[nodiscard]] std::int64_t status_of_node(mounted_prefix& of, node_number node,
                                          farcall_io_status& status);

/// Finds a name in a folder, and replies the file. Replies the error otherwise.
void reply_entry(fuse_req_t request, node_number folder, std::string_view name);

/// Calls `f` with a path, and replies its result. Replies ESTALE if the file has no path any more.
template <class F>
void with_path(fuse_req_t request, const std::optional<std::string>& path, const F& f) {
  if (!path) {
    reply_result(request, -ESTALE);
  } else {
    f(*path);
  }
}

// The functions that serve requests, by their subjects.
void add_name_operations(fuse_lowlevel_ops& to) noexcept;
void add_file_operations(fuse_lowlevel_ops& to) noexcept;
void add_folder_operations(fuse_lowlevel_ops& to) noexcept;
void add_lock_operations(fuse_lowlevel_ops& to) noexcept;

} // namespace farcall::mount
