// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace farcall::files {

/// Memory for requests of the system. Its pages are there from the beginning, and stay the
/// process's own in a fork, so that the system never needs the lock of the process's memory to
/// write to them.
class request_memory {
 public:
  /// Throws std::bad_alloc.
  explicit request_memory(std::size_t bytes);
  request_memory(const request_memory&) = delete;
  request_memory& operator=(const request_memory&) = delete;
  ~request_memory();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {begin_, bytes_}; }

 private:
  std::byte* begin_;
  std::size_t bytes_;
};

/// A write of changed pages of a shared mapping, by the system's number of the request.
struct page_write {
  std::uint64_t unique = 0; ///< 0: another request
  std::uint32_t bytes = 0;
};

/// Requests of a mount that get a reply before they are performed, or are performed after such
/// requests.
///
/// Linux writes the changes of a mapping while munmap() has the lock of the process's memory.
/// Threads of this process that perform these writes may then wait for the lock, which munmap()
/// keeps until the writes have a reply. So a write of pages that takes long gets its reply before
/// it is performed. From then on, all requests are late: they are kept in a file in memory, which
/// needs no memory of the process, and are performed in their order. Writes of pages get their
/// replies at once, other requests when they are performed.
///
/// Any thread may call it. All functions work while another thread has the lock of the process's
/// memory.
class late_requests {
 public:
  /// Maximum number of writes of pages that are performed at a time.
  static constexpr std::size_t max_performed = 8;

  /// Throws std::system_error.
  late_requests();
  late_requests(const late_requests&) = delete;
  late_requests& operator=(const late_requests&) = delete;

  enum class fate : std::uint8_t {
    now,  ///< the calling thread performs the request, and calls end() if it is a write of pages
    late, ///< another thread performs it. The caller replies if it is a write of pages.
    none, ///< the system has no memory for the request
  };
  /// Decides what happens to a request. With `is_late`, the request is not performed now.
  [[nodiscard]] fate take(std::span<const std::byte> request, const page_write& pages,
                          bool is_late) noexcept;
  /// Notes the end of a write of pages. Returns true if it has no reply yet.
  [[nodiscard]] bool end(std::uint64_t unique) noexcept;

  /// Waits for the first late request, and copies it to `to`. Returns its size, or 0 if there is
  /// none after stop().
  [[nodiscard]] std::size_t next(std::span<std::byte> to) noexcept;

  /// Writes of pages, for which the caller must send a reply.
  struct overdue {
    std::array<page_write, max_performed> all;
    std::size_t count = 0;
  };
  /// Returns the writes of pages that were being performed at the last call, too, and have no
  /// reply. They count as late from now on.
  [[nodiscard]] overdue look() noexcept;
  /// Waits for a time. Returns false after stop().
  [[nodiscard]] bool pause(std::chrono::milliseconds time) noexcept;

  /// Waits until requests are late, or until wake_reader(). Returns false after stop().
  [[nodiscard]] bool wait_to_read() noexcept;
  /// Lets wait_to_read() return, because no other thread reads requests.
  void wake_reader() noexcept;

  /// Wakes all threads that wait.
  void stop() noexcept;

 private:
  struct performed {
    page_write pages;
    bool is_seen = false; ///< by look()
    bool is_replied = false;
  };

  [[nodiscard]] bool keep(std::span<const std::byte> request) noexcept;
  [[nodiscard]] std::size_t take_first(std::span<std::byte> to) noexcept;

  std::mutex mutex_;
  unique_fd file_;
  std::uint64_t begin_ = 0; ///< of the first kept request in the file
  std::uint64_t end_ = 0;
  bool is_late_ = false;
  bool is_reading_ = false; ///< since wake_reader()
  bool is_stopping_ = false;
  std::size_t unfinished_ = 0; ///< writes that have a reply, and are being performed
  std::array<performed, max_performed> performed_{};
  std::condition_variable more_;    ///< requests can be taken from the file, or all are performed
  std::condition_variable space_;   ///< a request was taken from the file
  std::condition_variable reading_; ///< requests are late
  std::condition_variable stopping_;
};

} // namespace farcall::files
