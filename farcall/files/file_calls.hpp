// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/buffered_file.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/host_requests.hpp>
#include <farcall/files/io_operations.h>
#include <farcall/files/passed_files.hpp>
#include <farcall/offload/job_service.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::files {

/// The ways to perform a target's calls that concern the host's files.
enum class forwarding : std::uint8_t {
  nothing, ///< the target's libc performs them, because the files are the same on this machine
  /// The host opens a file and passes its descriptor, on which the target's libc performs the
  /// calls. If the host cannot pass it, the host performs all operations.
  descriptors,
  data, ///< the host performs all operations
};

/// File operations of a target, performed by its host. Each function behaves like the system call
/// of the same name, and returns its result or -errno: -EIO if the host has failed or the job has
/// ended, and -EFAULT if the caller's memory cannot be used. The calling thread waits as in a
/// system call, without running other handlers.
///
/// A file that is read from its beginning on is read ahead. A write returns before the host has
/// done it. fsync() and close() wait for earlier writes. If a write fails, the next write, fsync()
/// or close() of the file returns its error. Between nodes, consistency is close-to-open, as with
/// an NFS mount. Within a target, a file is not buffered if it is open twice and written to. Large
/// reads and writes are sent in pieces, and are not atomic. With FARCALL_IO_BUFFER=off, nothing is
/// read ahead, and each write waits until the host has done it.
///
/// Any thread of the target may call these functions.
class file_calls final : public detail::job_service,
                         public std::enable_shared_from_this<file_calls> {
 public:
  /// Sends requests to the host of `job`, which must outlive finish(). `kind` says which operations
  /// of this process's programs are forwarded. `passes_to_mounts` is true if the host can pass its
  /// open files to this process, for mounts.
  file_calls(detail::job_core& job, std::vector<prefix> prefixes, forwarding kind,
             bool passes_to_mounts = false);

  [[nodiscard]] std::span<const prefix> prefixes() const noexcept { return prefixes_; }

  /// Performs an operation of io_operations.h that is given as a structure. Meant for callers that
  /// forward requests of programs.
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked) noexcept;

  // Each function performs one operation, and has the parameters of the operation's row in the
  // table. Paths are absolute.
#define FARCALL_IO_DEFINE(name, traits, parameters, ...)                                           \
  [[nodiscard]] std::int64_t name parameters noexcept {                                            \
    return perform({.operation = farcall_io_op_##name, __VA_ARGS__});                              \
  }
  FARCALL_IO_OPERATIONS(FARCALL_IO_DEFINE)
#undef FARCALL_IO_DEFINE

  /// Performs an open or reopen for a mount. If the host can pass open files to this machine, also
  /// sets `passed` to the host's open file.
  [[nodiscard]] std::int64_t open_for_mount(const farcall_io_request& asked,
                                            unique_fd& passed) noexcept {
    return open_at_host(asked, passes_to_mounts_ ? &passed : nullptr);
  }

  /// Performs a write, and waits until the host has done it. Unlike for other writes, the result
  /// is the host's, which may be a part of the bytes.
  [[nodiscard]] std::int64_t write_through(const farcall_io_request& asked) noexcept;

  /// Performs a read at an offset, without read-ahead.
  [[nodiscard]] std::int64_t read_through(const farcall_io_request& asked) noexcept;

  /// Reads up to max_piece bytes at an offset like read_through(), and passes them to `to` in the
  /// memory of the reply, without a copy.
  [[nodiscard]] std::int64_t read_to(std::uint64_t file, landing_sink& to, std::size_t bytes,
                                     std::int64_t offset) noexcept;

  /// Waits until the host has done all writes to the file. Like close(), returns the first error of
  /// these writes, and reports each error once.
  [[nodiscard]] std::int64_t flush(std::uint64_t file) noexcept;

  /// True if the host is asked to pass open files as descriptors.
  [[nodiscard]] bool are_passed() const noexcept { return kind_ == forwarding::descriptors; }

  void begin() override;
  void take_file(std::uint64_t number, unique_fd file) noexcept override;
  void finish() noexcept override;

 private:
  using file_ref = std::shared_ptr<buffered_file>;

  [[nodiscard]] file_ref find(std::uint64_t number);
  /// Returns the open files for which `is_chosen` is true.
  template <class F>
  [[nodiscard]] std::vector<file_ref> choose(const F& is_chosen);
  /// Returns the other open files that are the same file on the host.
  [[nodiscard]] std::vector<file_ref> same_as(const buffered_file& file);
  /// Adds an open file. If the same file is already open, drops the bytes that were read ahead. If
  /// one of the two is open for writing, stops the buffering of both.
  void keep(const file_ref& opened);
  template <class F>
  [[nodiscard]] std::int64_t on_file(std::uint64_t file, const F& f) noexcept;
  template <class F>
  [[nodiscard]] std::int64_t on_path(const F& f) noexcept;
  [[nodiscard]] std::int64_t open_at_host(const farcall_io_request& asked,
                                          unique_fd* passed_too) noexcept;
  [[nodiscard]] std::int64_t close_at_host(std::uint64_t file) noexcept;
  [[nodiscard]] std::int64_t ask(const farcall_io_request& asked) noexcept;
  void wait_for_source(const request& copy) noexcept;

  std::vector<prefix> prefixes_;
  const bool buffers_;
  const bool reads_ahead_;
  const forwarding kind_;
  const bool passes_to_mounts_;
  passed_files passed_;
  host_requests host_;
  std::shared_mutex mutex_;
  std::map<std::uint64_t, file_ref> files_; ///< open files, by number
};

/// Returns the file calls of the job in which this process is a target. Throws error if the host
/// does not let its targets use files.
[[nodiscard]] file_calls& of_this_target();

/// Implements job_service_entry::on_target.
[[nodiscard]] std::shared_ptr<detail::job_service> join_files(detail::job_state& job,
                                                              const std::string& told);

} // namespace farcall::files
