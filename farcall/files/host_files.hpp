// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/descriptor_share.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/host_locks.hpp>
#include <farcall/files/host_reply.hpp>
#include <farcall/offload/job_service.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <sys/stat.h>

namespace farcall::files {

/// Converts a status for a message.
[[nodiscard]] farcall_io_status status_of(const struct stat& s) noexcept;

/// The host's part of the operations on files. Knows the files that targets may use, and the files
/// that each target has open. A target's open files are closed when the target ends, and other
/// targets cannot use them. Any thread may call it.
///
/// Each operation makes the system call of the same name, on the thread that serves the request,
/// and may block like this system call. The requests of one lane are served one after the other.
class host_files final : public detail::job_service {
 public:
  explicit host_files(access_list allowed);

  /// Performs the operation that `what` describes for a target of `job`, and sends the reply by
  /// `to`. Throws out_of_memory and std::bad_alloc.
  void serve(const detail::job_state& job, am::request_context& to, const request& what);

  [[nodiscard]] std::string for_targets() const override;
  void node_ended(node_id node) noexcept override;

 private:
  /// An open file of a target. The thread that drops the last reference closes the file.
  struct open_file {
    open_file() = default;
    open_file(const open_file&) = delete;
    open_file& operator=(const open_file&) = delete;
    ~open_file();

    unique_fd descriptor;
    /// Result of closing the file, 0 or -errno. It is 0 until the file is closed.
    std::shared_ptr<std::atomic<std::int64_t>> closed =
        std::make_shared<std::atomic<std::int64_t>>(0);
    std::string path;         ///< of a folder: the path by which the target has opened it
    bool is_writable = false; ///< true if targets may write to the file's path
    bool is_regular = false;
    bool is_pipe = false;
    /// Numbers of the last read and of the last write that had a short or failed piece. The host
    /// skips the later pieces of this read and of this write.
    std::atomic<std::uint64_t> stopped_read{0};
    std::atomic<std::uint64_t> stopped_write{0};
  };
  using file_ref = std::shared_ptr<open_file>;

  struct target {
    std::map<std::uint64_t, file_ref> files;
    std::shared_ptr<host_locks> locks = std::make_shared<host_locks>();
    std::uint64_t last = 0;   ///< highest number that was given to a file
    std::size_t reserved = 0; ///< number of places without a file
    bool has_ended = false;
  };

  /// The permission to open one more file for a target. It is taken before the open, because an
  /// open that fails afterwards may have changed the file.
  class place;

  [[nodiscard]] file_ref find(node_id node, std::uint64_t file);
  /// Returns the locks of a target, or null if the target has ended.
  [[nodiscard]] std::shared_ptr<host_locks> locks_of(node_id node);
  /// Returns the part of the process's descriptors that a target may use now.
  [[nodiscard]] descriptor_share share(const detail::job_state& job);
  /// Changes a path that begins with the path of an open folder, if the folder was renamed.
  /// `folder` is the folder's number, or 0 for other paths. Returns 0, or -errno.
  [[nodiscard]] std::int64_t follow(node_id node, std::uint64_t folder, std::string& path);

  /// A request that the host is performing.
  struct call {
    const detail::job_state& job;
    const node_id node;
    const request& what;
    std::string_view asked_path; ///< path of the request, before follow()
    host_reply& reply;
    file_ref file{}; ///< the open file that the request names by its number
    /// The file that the request names by its path, if the operation takes a number or a path.
    unique_fd name{};

    [[nodiscard]] int fd() const noexcept {
      return file != nullptr ? file->descriptor.get() : name.get();
    }
  };

  [[nodiscard]] std::int64_t perform(call& c);
  [[nodiscard]] std::int64_t give(call& c, place& reserved, unique_fd file, bool is_writable);
  /// Finds the open file or the path that the request concerns, and stores it in `c`. The
  /// operation's traits say which of the two it takes. Returns 0, or -errno.
  [[nodiscard]] std::int64_t find_file(call& c);
  /// Checks that targets may change the file of the request, and returns its mode. Returns -EACCES
  /// if targets may not write to it, or if it is a device, pipe or socket.
  [[nodiscard]] std::int64_t changeable_mode(const call& c) const;

  [[nodiscard]] static bool has_input(const open_file& file) noexcept;

  // Each performs one operation.
#define FARCALL_IO_DECLARE(name, ...) [[nodiscard]] std::int64_t name(call& c);
  FARCALL_IO_OPERATIONS(FARCALL_IO_DECLARE)
#undef FARCALL_IO_DECLARE

  access_list allowed_;
  std::mutex mutex_;
  std::map<node_id, target> targets_;
};

/// Implements job_service_entry::on_host.
[[nodiscard]] std::shared_ptr<detail::job_service> make_host_files(const job_options& options);

} // namespace farcall::files
