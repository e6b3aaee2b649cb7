#pragma once

#include "mounted_prefix.hpp"
#include "target_link.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace farcall::mount {

/// Requests for locks that programs wait for. The host never waits for a lock, so that one thread
/// of this process tries all of them again and again, with pauses that grow. Any thread may call
/// it.
class waiting_locks {
 public:
  /// Starts the thread. `target` must live until the process ends. Throws error and
  /// std::system_error.
  explicit waiting_locks(target_process& target);

  /// Tries to get a lock; returns 0, or -errno, which is -EAGAIN as long as another lock excludes
  /// it. Called by the thread.
  using attempt = std::function<std::int64_t()>;

  /// Has the lock tried until it succeeds or fails, or until the program is interrupted, and then
  /// replies to the request.
  void add(fuse_req_t request, attempt tries);

 private:
  using clock = std::chrono::steady_clock;
  struct waiting {
    fuse_req_t request;
    attempt tries;
    clock::time_point next;
    clock::duration pause;
    bool has_begun = false; ///< false until the request can be interrupted
    bool is_interrupted = false;
  };

  static void interrupt(fuse_req_t request, void* number);
  void run() noexcept;
  void try_due(std::unique_lock<std::mutex>& lock);

  target_link link_; ///< of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, waiting> all_; ///< by numbers that are used once
};

} // namespace farcall::mount
