// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/io_operations.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <sys/types.h>

namespace farcall::mount {

/// The target that this helper mounts files for. Any thread may call it.
class target_process {
 public:
  /// `socket` is the abstract name of the target's child_server. Throws error if the process has
  /// ended.
  target_process(std::string socket, pid_t pid);

  /// Descriptor that becomes readable when the process has ended.
  [[nodiscard]] int end_fd() const noexcept { return end_.get(); }

  /// True if the process has ended, or if all of its threads but one, which executes another
  /// program, are about to end. Such a process may still exist, because one of its threads waits
  /// for a file of the mount, and it keeps its sockets open. It would never reply to a request.
  [[nodiscard]] bool has_ended() noexcept;

  /// Looks at the target's threads that serve the mount. Returns true if one of them was blocked by
  /// the system at the last `looks` calls and has not run between them. Such a thread waits for the
  /// lock of the target's memory, which another thread has that waits for a page of the mount.
  /// Called by one thread.
  [[nodiscard]] bool is_blocked(unsigned looks);

  /// Opens the target's standard error. Returns an empty descriptor on failure.
  [[nodiscard]] unique_fd open_log() const;

  /// Connects to the target's server. Returns an empty descriptor on failure.
  [[nodiscard]] unique_fd connect() const noexcept;

 private:
  struct blocked_thread {
    std::string progress;
    unsigned looks = 0;
  };

  [[nodiscard]] bool have_threads_ended() const noexcept;

  std::string socket_;
  pid_t pid_;
  bool is_in_proc_; ///< /proc shows this process
  unique_fd end_;
  std::atomic<bool> ended_{false};                ///< relaxed, because it guards nothing
  std::map<std::string, blocked_thread> blocked_; ///< by the numbers of threads
};

/// Connection of one thread of the helper to the target, with the memory that both share. Used by
/// one thread.
class target_link {
 public:
  /// Maximum number of bytes of one request of the system, with its head.
  static constexpr std::size_t max_request = (std::size_t{1} << 20) + (std::size_t{64} << 10);

  /// Makes the memory. Connects at the first request. Throws error. `to` must outlive the link.
  explicit target_link(target_process& to);
  target_link(const target_link&) = delete;
  target_link& operator=(const target_link&) = delete;
  ~target_link();

  /// Memory for a request of the system, of max_request bytes. If the data of an operation is in
  /// there, the target takes it from there.
  [[nodiscard]] std::byte* request_memory() const noexcept { return memory_; }
  /// Memory of max_result bytes for the result of an operation. The target writes it there.
  [[nodiscard]] std::byte* result_memory() const noexcept { return memory_ + max_request; }
  static constexpr std::size_t max_result = std::size_t{1} << 20;

  /// Has the target perform an operation. Returns its result: -errno, and -EIO if the target has
  /// ended. The result's bytes are in the request's `result`, which may be in result_memory().
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked) noexcept {
    return perform(asked, {});
  }

#define FARCALL_MOUNT_DEFINE(name, traits, parameters, ...)                                        \
  [[nodiscard]] std::int64_t name parameters noexcept {                                            \
    return perform({.operation = farcall_io_op_##name, __VA_ARGS__});                              \
  }
  FARCALL_IO_OPERATIONS(FARCALL_MOUNT_DEFINE)
#undef FARCALL_MOUNT_DEFINE

  /// Reads like read(). With `is_ahead`, the target does not read ahead, because the system does.
  [[nodiscard]] std::int64_t read(std::uint64_t file, void* to, std::size_t bytes,
                                  std::int64_t offset, bool is_ahead) noexcept;

  /// Has the target read the system's requests from the device of a mount, and send requests other
  /// than reads and writes to the other end of a socket. Returns 0, or -errno.
  [[nodiscard]] std::int64_t serve(int device, int requests, bool reads_ahead) noexcept;

  /// Waits for the writes to a file, and returns their first error.
  [[nodiscard]] std::int64_t flush(std::uint64_t file) noexcept;

  /// Returns the host's open file if the reply to the last open has carried it.
  [[nodiscard]] unique_fd take_passed() noexcept { return std::move(passed_); }

  /// Opens a file. Fills `opened`, its descriptor excepted. Returns 0, or -errno.
  [[nodiscard]] std::int64_t open(const std::string& path, int flags, std::uint32_t mode,
                                  farcall_io_opened_status& opened) noexcept;

  /// Opens the file of an open file again. Returns 0, or -errno.
  [[nodiscard]] std::int64_t reopen(std::uint64_t file, int flags,
                                    farcall_io_opened_status& opened) noexcept;

 private:
  [[nodiscard]] bool begin() noexcept;
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked,
                                     std::span<const int> passed) noexcept;
  [[nodiscard]] bool send(const void* head, std::size_t bytes, const farcall_io_request& asked,
                          std::span<const int> passed) noexcept;
  [[nodiscard]] bool receive(void* to, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint64_t position_of(const void* at, std::size_t bytes,
                                          std::size_t otherwise) const noexcept;

  target_process& to_;
  unique_fd file_;
  std::byte* memory_ = nullptr;
  unique_fd connection_;
  unique_fd passed_;
};

} // namespace farcall::mount
