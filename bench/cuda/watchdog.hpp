#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace farcall::bench {

/// Ends the process when nothing has gone on for too long, after it has said on standard error what
/// was waited for: a device that hangs would show nothing, and the next group of figures may do
/// without what this one waits for.
class watchdog {
 public:
  using say = std::function<void(const std::string& line)>;
  using diagnosis = std::function<void(const say& one)>;
  /// Of the process that it ends.
  static constexpr int exit_status = 3;

  explicit watchdog(std::chrono::nanoseconds patience);
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog();

  /// Something has gone on. By one thread at a time.
  void tick() noexcept {
    // No addition in one piece, which would cost what is measured more.
    ticks_.store(ticks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// The same, and from now on `what` is waited for; `patience` for what is known to take long.
  void expect(const std::string& what, std::chrono::nanoseconds patience);
  void expect(const std::string& what) { expect(what, patience_); }
  /// Who knows more, until it is replaced. May wait: the process ends all the same.
  void ask(diagnosis who);

 private:
  void watch();
  [[noreturn]] void bark();

  const std::chrono::nanoseconds patience_;
  std::atomic<std::uint64_t> ticks_{0};
  std::mutex mutex_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  std::string expected_ = "the beginning";
  std::chrono::nanoseconds current_patience_;
  diagnosis diagnosis_;
  std::thread thread_;
};

} // namespace farcall::bench
