// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace farcall::bench {

/// Ends the process if there is no progress for too long, after printing on standard error what was
/// awaited: a hanging device would show nothing, and the next group of figures may work in a new
/// process.
class watchdog {
 public:
  using say = std::function<void(const std::string& line)>;
  using diagnosis = std::function<void(const say& one)>;
  /// Exit status of the process that it ends.
  static constexpr int exit_status = 3;

  explicit watchdog(std::chrono::nanoseconds timeout);
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog();

  /// Reports progress. Called by one thread at a time.
  void tick() noexcept {
    // A load and a store: an atomic addition would disturb the measurement more.
    ticks_.store(ticks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Reports progress, and what is awaited from now on; gives a timeout if it is known to take
  /// long.
  void expect(const std::string& what, std::chrono::nanoseconds timeout);
  void expect(const std::string& what) { expect(what, timeout_); }
  /// Sets the function that prints a diagnosis, until it is replaced. It may block: the process
  /// ends nevertheless.
  void ask(diagnosis who);

 private:
  void watch();
  [[noreturn]] void bark();

  const std::chrono::nanoseconds timeout_;
  std::atomic<std::uint64_t> ticks_{0};
  std::mutex mutex_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  std::string expected_ = "the beginning";
  std::chrono::nanoseconds current_timeout_;
  diagnosis diagnosis_;
  library_thread thread_;
};

} // namespace farcall::bench
