// SPDX-License-Identifier: Apache-2.0
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

/// Requests for which programs wait: for locks, and for pipes and devices that are not ready. The
/// host never waits, so that one thread of this process tries all of them again and again, with
/// pauses that grow. So requests that wait take no thread from others. Any thread may call it.
class waiting_requests {
 public:
  using clock = std::chrono::steady_clock;

  /// Pauses between two tries of a request.
  struct pauses {
    clock::duration first;
    clock::duration longest;
  };

  /// Starts the thread. `target` must live until the process ends. Throws error and
  /// std::system_error.
  explicit waiting_requests(target_process& target);

  /// Tries to serve a request, and replies to it. Returns false if the request must be tried again.
  /// If `is_interrupted` is true, the program waits no more, so that it must reply in any case.
  /// Called by the thread.
  using attempt = std::function<bool(bool is_interrupted)>;

  /// Has the request tried until it has a reply.
  void add(fuse_req_t request, pauses how_long, attempt tries);

 private:
  struct waiting {
    attempt tries;
    clock::time_point next;
    pauses how_long;        ///< `first` is the next pause
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
