// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nodes.hpp"
#include "open_file.hpp"
#include "passthrough.hpp"
#include "target_link.hpp"

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <pthread.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

namespace farcall::mount {

class waiting_requests;

/// One prefix of the host that is mounted for a target, and the threads that serve the system's
/// requests for it. Each thread has a link of its own to the target.
class mounted_prefix {
 public:
  /// Asks the host for the prefix. `link` is the calling thread's link. Throws error.
  mounted_prefix(target_process& target, target_link& link, waiting_requests& waiting,
                 const files::prefix& of, bool is_strict);
  mounted_prefix(const mounted_prefix&) = delete;
  mounted_prefix& operator=(const mounted_prefix&) = delete;

  /// Mounts the prefix, starts the threads, and waits until the system uses the mount. `link` is
  /// the calling thread's. Throws error.
  void mount(target_link& link);
  /// True if the prefix is mounted. The object must then live until the process ends.
  [[nodiscard]] bool is_mounted() const noexcept { return is_mounted_; }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] node_table& nodes() noexcept { return *nodes_; }
  [[nodiscard]] open_files& files() noexcept { return files_; }
  [[nodiscard]] backing_files& backing() noexcept { return *backing_; }
  /// Returns the open file that a request names.
  [[nodiscard]] open_file& file_of(const fuse_file_info& info) { return files_.at(info.fh); }
  [[nodiscard]] waiting_requests& waiting() noexcept { return waiting_; }
  [[nodiscard]] fuse_session* session() noexcept { return session_; }
  /// Time in seconds for which the system may use names and attributes without asking again.
  [[nodiscard]] double cache_seconds() const noexcept { return is_strict_ ? 0 : 1; }
  [[nodiscard]] bool is_strict() const noexcept { return is_strict_; }
  /// True if the prefix is a device or a pipe, whose contents are not cached.
  [[nodiscard]] bool is_special() const noexcept { return is_special_; }
  [[nodiscard]] bool is_pipe() const noexcept { return is_pipe_; }
  /// Number of bytes of a device with blocks, which its status does not tell.
  [[nodiscard]] std::int64_t device_bytes() const noexcept { return device_bytes_; }
  /// Returns the inode that the system shows. The host may have mounted other file systems below
  /// the prefix, whose inodes are numbers of files of this one, too.
  [[nodiscard]] std::uint64_t shown_inode(const farcall_io_status& of) const noexcept;

  /// True if the system reads files ahead in large pieces.
  [[nodiscard]] bool reads_ahead() const noexcept {
    // Relaxed, because both ways to read are right at any time.
    return reads_ahead_.load(std::memory_order_relaxed);
  }

  /// Called by the first request of the system.
  void note_begin() noexcept;

  /// Allows an unmount. Called before the helper gives up after a failed start.
  void release_root() noexcept { root_.reset(); }

  /// Makes all requests of the mount fail, including requests to which the target will not reply.
  /// The mount stays.
  void abort() noexcept;

 private:
  void start_thread();
  class presence;

  void serve();
  [[nodiscard]] bool begin_thread();
  [[nodiscard]] int receive(fuse_buf& request);
  void stop_threads();
  void give_device_to_target(target_link& link);
  void wait_for_begin();
  void widen_read_ahead();

  /// Maximum number of requests of one mount that are served at a time.
  static constexpr int max_threads = 64;

  target_process& target_;
  waiting_requests& waiting_;
  std::string path_;
  bool is_strict_;
  bool is_writable_;
  bool is_folder_ = false;
  bool is_mounted_ = false;
  bool is_special_ = false;
  bool is_pipe_ = false;
  std::int64_t device_bytes_ = 0;
  std::uint64_t device_ = 0; ///< of the host, on which the prefix is
  unsigned connection_ = 0;  ///< number by which the system knows the mount's device
  std::atomic<bool> reads_ahead_{false};
  /// Kept open, so that abort() does not unmount.
  unique_fd root_;
  /// Socket by which the target sends requests that it does not serve. Empty before the target has
  /// the device.
  unique_fd requests_;
  std::atomic<bool> has_requests_{false};
  std::optional<node_table> nodes_;
  open_files files_;
  std::optional<backing_files> backing_;
  fuse_session* session_ = nullptr;
  std::mutex mutex_;
  std::condition_variable begun_;
  bool has_begun_ = false;
  bool is_handing_over_ = false; ///< true while all threads must end, before the target serves
  std::condition_variable ended_;
  std::vector<pthread_t> running_;
  int threads_ = 0;
  int idle_ = 0;
};

/// Returns the functions that serve requests. The session's user data is the mounted_prefix.
[[nodiscard]] const fuse_lowlevel_ops& operations() noexcept;

/// Link of the calling thread to the target. Set by mounted_prefix.
[[nodiscard]] target_link*& own_link() noexcept;

/// Serves a request that libfuse does not know. Returns false for all other requests.
[[nodiscard]] bool serve_unknown(mounted_prefix& of, const fuse_buf& request);

} // namespace farcall::mount
