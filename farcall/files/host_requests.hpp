// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/files/file_messages.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace farcall::files {

/// A request that was sent to the host, and whose reply may not have arrived.
class sent_request {
 public:
  sent_request() = default;
  sent_request(std::shared_ptr<lane> way, future<reply> sent)
      : way_(std::move(way)), sent_(std::move(sent)) {}

  /// True if the reply has arrived, and a thread that waits in the lane has read it.
  [[nodiscard]] bool is_ready() const noexcept;
  /// Waits for the reply as in a system call, without running other handlers. May be called once.
  /// Throws the exception with which the call ended.
  [[nodiscard]] std::int64_t wait();

 private:
  std::shared_ptr<lane> way_;
  future<reply> sent_;
};

/// Sends a target's file requests to its host, in lanes that no other calls use. Any thread may
/// call it.
class host_requests {
 public:
  /// Maximum number of lanes to the host. If there are more threads, threads share lanes.
  static constexpr std::size_t max_lanes = 16;

  /// Requests are sent as calls in `job`, which must outlive end().
  explicit host_requests(detail::job_core& job) : job_(job) {}

  /// Returns the calling thread's lane. The host serves the requests of one lane in order.
  [[nodiscard]] std::shared_ptr<lane> own_lane();

  /// Sends a copy of the request in a lane, and returns before the host serves it. Throws like
  /// async(), and error after the end of the job.
  [[nodiscard]] static sent_request send(const std::shared_ptr<lane>& way, const request& what);
  /// Sends a request and waits for its result.
  [[nodiscard]] std::int64_t ask(const request& what) { return send(own_lane(), what).wait(); }

  /// Returns f(), or -errno if f() throws. After end(), does not call f() and returns -EIO. Leaves
  /// errno as it was before the call.
  template <class F>
  [[nodiscard]] std::int64_t guarded(const F& f) noexcept {
    const errno_kept kept;
    // Check before taking the shared lock. Otherwise, threads that keep calling could keep end()
    // from ever getting the exclusive lock.
    if (has_ended()) return -EIO;
    const std::shared_lock guard(ending_);
    return has_ended() ? -EIO : result_of(f);
  }

  /// Returns f(). Calls f() again, with pauses, as long as it returns -EAGAIN, because the host
  /// does not wait for other processes. Returns -EIO after stop_waiting().
  template <class F>
  [[nodiscard]] std::int64_t until_ready(const F& f) {
    for (std::chrono::microseconds pause{50};; pause = std::min(2 * pause, max_pause)) {
      const std::int64_t result = f();
      if (result != -EAGAIN) return result;
      if (waits_no_more_.load(std::memory_order_relaxed)) return -EIO;
      std::this_thread::sleep_for(pause);
    }
  }
  /// Makes all calls of until_ready() return soon, because the job is about to end.
  void stop_waiting() noexcept { waits_no_more_.store(true, std::memory_order_relaxed); }

  /// Returns f(), or -errno if f() throws an exception.
  template <class F>
  [[nodiscard]] static std::int64_t result_of(const F& f) noexcept {
    try {
      return f();
    } catch (...) {
      return errno_of_exception();
    }
  }

  /// Waits for the calls in flight. Then calls `last`, which can still send requests to the host,
  /// and closes the lanes. Later calls of guarded() return -EIO, and the first of them logs a
  /// warning.
  template <class F>
  void end(const F& last) noexcept {
    // Release, paired with the acquire load in has_ended(), so that threads that see the flag also
    // see everything before it.
    has_ended_.store(true, std::memory_order_release);
    const std::unique_lock guard(ending_);
    (void)result_of([&] {
      last();
      return 0;
    });
    drop_lanes();
  }

 private:
  /// Longest pause between two tries of until_ready().
  static constexpr std::chrono::microseconds max_pause{20'000};

  struct errno_kept {
    errno_kept() noexcept : value(errno) {}
    ~errno_kept() { errno = value; }
    errno_kept(const errno_kept&) = delete;
    errno_kept& operator=(const errno_kept&) = delete;
    int value;
  };
  /// Returns -errno for the exception that is being handled by the calling catch block.
  [[nodiscard]] static std::int64_t errno_of_exception() noexcept;
  /// True after end(). The first call after end() logs a warning.
  [[nodiscard]] bool has_ended() const noexcept {
    if (!has_ended_.load(std::memory_order_acquire)) [[likely]]
      return false;
    warn_of_end();
    return true;
  }
  static void warn_of_end() noexcept;
  void drop_lanes() noexcept;

  struct lane_slot {
    std::mutex mutex;
    std::shared_ptr<lane> open;
  };

  detail::job_core& job_;
  /// Lock that all calls in flight share, and that end() takes exclusively.
  std::shared_mutex ending_;
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> waits_no_more_{false};
  std::array<lane_slot, max_lanes> lanes_;
};

} // namespace farcall::files
