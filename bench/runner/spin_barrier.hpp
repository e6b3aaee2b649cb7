// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace farcall::tool {

/// A std::barrier whose threads continue at the same moment: they wait spinning, since waking up
/// takes longer than a small copy. They also yield, since there may be more threads than
/// processors.
class spin_barrier {
 public:
  explicit spin_barrier(std::size_t threads) : expected_(threads) {}

  void arrive_and_wait();
  /// Removes this thread from the barrier: the others no longer wait for it.
  void arrive_and_drop();

 private:
  void open_if_complete();

  std::mutex mutex_;
  std::size_t expected_;
  std::size_t arrived_ = 0;
  std::atomic<std::size_t> phase_ = 0; ///< grows with release, is read with acquire
};

/// Runs `body(0)` … `body(threads - 1)` in threads bound round-robin to the processors `cpus`, or a
/// single one in the calling thread with its own binding. The threads meet at `barrier`; a thread
/// that throws leaves it. Returns after all have ended, and throws the first thread's exception, if
/// any.
void run_together(std::size_t threads, const std::vector<int>& cpus, spin_barrier& barrier,
                  const std::function<void(std::size_t)>& body);

} // namespace farcall::tool
