#pragma once

#include <farcall/files/file_messages.hpp>
#include <farcall/offload/call.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace farcall::files {

/// A request that the host has been sent.
class sent_request {
 public:
  sent_request() = default;
  sent_request(std::shared_ptr<lane> way, future<reply> sent)
      : way_(std::move(way)), sent_(std::move(sent)) {}

  /// The reply has been taken in, by whoever waits in its lane.
  [[nodiscard]] bool is_ready() const noexcept;
  /// Waits as in a system call, without running other handlers; once. Throws what the call ended
  /// with.
  [[nodiscard]] std::int64_t wait();

 private:
  std::shared_ptr<lane> way_;
  future<reply> sent_;
};

/// Sends a target's requests to its host, in lanes of its own. Any thread.
class host_requests {
 public:
  /// Threads share lanes to the host when there are more of them.
  static constexpr std::size_t most_lanes = 16;

  /// For the calls of `job`, which outlives end().
  explicit host_requests(detail::job_core& job) : job_(job) {}

  /// The lane of the calling thread. What is sent by one lane is done in order.
  [[nodiscard]] std::shared_ptr<lane> own_lane();

  /// Copies what the request holds, and returns before it is done. Throws as async(), and error
  /// when all has ended.
  [[nodiscard]] static sent_request send(const std::shared_ptr<lane>& way, const request& what);
  /// Waits for it, too.
  [[nodiscard]] std::int64_t ask(const request& what) { return send(own_lane(), what).wait(); }

  /// What `f` returns; for what it throws, and where all has ended, -errno. errno stays as it is.
  template <class F>
  [[nodiscard]] std::int64_t guarded(const F& f) noexcept {
    const errno_kept kept;
    // Before the lock: threads that go on calling would keep end() from it.
    if (has_ended()) return -EIO;
    const std::shared_lock guard(ending_);
    return has_ended() ? -EIO : result_of(f);
  }

  /// The same, for one that is under way.
  template <class F>
  [[nodiscard]] static std::int64_t result_of(const F& f) noexcept {
    try {
      return f();
    } catch (...) {
      return errno_of_exception();
    }
  }

  /// Waits for calls that are under way; later ones give -EIO, and the first of them is warned of.
  /// Then does the last thing, for which the host is still there.
  template <class F>
  void end(const F& last) noexcept {
    // Release; partner: the acquire load in has_ended().
    has_ended_.store(true, std::memory_order_release);
    const std::unique_lock guard(ending_);
    (void)result_of([&] {
      last();
      return 0;
    });
    drop_lanes();
  }

 private:
  struct errno_kept {
    errno_kept() noexcept : value(errno) {}
    ~errno_kept() { errno = value; }
    errno_kept(const errno_kept&) = delete;
    errno_kept& operator=(const errno_kept&) = delete;
    int value;
  };
  /// Of the exception that is being handled: -errno.
  [[nodiscard]] static std::int64_t errno_of_exception() noexcept;
  /// As the name says; warns.
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
  std::shared_mutex ending_; ///< shared by calls that are under way
  std::atomic<bool> has_ended_{false};
  std::array<lane_slot, most_lanes> lanes_;
};

} // namespace farcall::files
