// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/late_requests.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <pthread.h>

namespace farcall::files {

class mounted_files;

/// The device by which the system requests operations of one mount. Reads requests from the device.
/// Performs reads and writes of files itself, so that their bytes pass no other process, and sends
/// all other requests to the mount's helper. The helper has the device open, too, and replies to
/// the requests that it gets. Any thread may call finish().
///
/// One thread at a time waits for requests. Before this thread serves a request that may take long,
/// another thread takes its place. After a short request it waits for the next one itself, so that
/// successive short requests use one lane, whose worker at the host is still awake.
///
/// Three further threads make requests late (late_requests.hpp): one looks if writes of pages take
/// long, or if no thread reads requests; one then reads requests, and one performs them.
class mount_device {
 public:
  /// Maximum number of reads and writes that are performed at a time.
  static constexpr std::size_t max_threads = late_requests::max_performed;
  /// Maximum number of bytes of a message to the helper.
  static constexpr std::size_t max_message = std::size_t{128} << 10;

  /// `device` is the mount's device, and `helper` the end of a socket (SOCK_SEQPACKET) whose other
  /// end the helper has. With `reads_ahead`, the system reads files ahead, and the target does not.
  /// Starts all threads. Throws std::system_error, error and std::bad_alloc. `files` must outlive
  /// this object.
  mount_device(mounted_files& files, unique_fd device, unique_fd helper, bool reads_ahead);
  mount_device(const mount_device&) = delete;
  mount_device& operator=(const mount_device&) = delete;
  ~mount_device() { finish(); }

  /// Waits for the requests that are being performed, ends the threads, and closes the device and
  /// the socket. If the helper ends, the threads end without this call.
  void finish() noexcept;

 private:
  class presence;
  class reply_of_read;

  void stop() noexcept;
  void prepare() noexcept;
  [[nodiscard]] bool enter();
  void run(std::span<std::byte> memory);
  void look_for_overdue();
  void read_late();
  void perform_late();
  [[nodiscard]] bool take_late(std::span<const std::byte> request, bool is_late) noexcept;
  [[nodiscard]] bool become_reader();
  void leave_reading();
  [[nodiscard]] bool may_take_long(std::span<const std::byte> request) const noexcept;
  [[nodiscard]] std::size_t next_request(std::span<std::byte> to);
  void serve(std::span<std::byte> request, std::span<std::byte> memory);
  void read(std::span<const std::byte> request, std::span<std::byte> memory);
  void write(std::span<const std::byte> request);
  void reply_written(std::uint64_t unique, std::int64_t result) noexcept;
  void pass_on(std::span<const std::byte> request) noexcept;
  void pass_on_forgets(std::span<const std::byte> request) noexcept;
  void reply(std::uint64_t unique, std::int64_t result, const void* bytes,
             std::size_t count) noexcept;

  mounted_files& files_;
  unique_fd device_;
  unique_fd helper_;
  const bool reads_ahead_;
  std::shared_ptr<event_loop> loop_;
  std::mutex mutex_;
  bool is_stopping_ = false;
  bool has_reader_ = false; ///< a thread waits for requests, or serves a short one
  std::condition_variable next_reader_;
  std::size_t unprepared_ = max_threads + 1; ///< threads that have not prepared themselves yet
  std::condition_variable prepared_;
  /// Average nanoseconds of short requests. Relaxed, because any value is right.
  std::atomic<std::int64_t> average_ns_{0};
  std::vector<pthread_t> running_; ///< threads that have not left run()
  std::array<library_thread, max_threads> threads_;
  late_requests late_;
  std::atomic<std::uint64_t> requests_{0}; ///< that were read. Relaxed, because it guards nothing.
  request_memory memory_;                  ///< of the threads that serve requests
  request_memory memory_to_read_;          ///< of the thread that reads late requests
  request_memory memory_to_perform_;       ///< of the thread that performs late requests
  std::array<library_thread, 3> late_threads_;
};

} // namespace farcall::files
