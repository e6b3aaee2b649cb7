#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace farcall::tool {

/// As std::barrier, for threads that are to go on at the same moment: they wait spinning, since to
/// be woken takes longer than a small copy. They yield meanwhile, for there may be more of them
/// than processors.
class spin_barrier {
 public:
  explicit spin_barrier(std::size_t threads) : expected_(threads) {}

  void arrive_and_wait();
  /// This thread comes no more, and the others no longer wait for it.
  void arrive_and_drop();

 private:
  void open_if_complete();

  std::mutex mutex_;
  std::size_t expected_;
  std::size_t arrived_ = 0;
  std::atomic<std::size_t> phase_ = 0; ///< release when it grows, acquire where that is seen
};

/// Runs `body(0)` … `body(threads - 1)`, each in a thread of its own that is bound to one of the
/// processors `cpus`, which they take in turn; or in the calling thread, as it is bound, if there
/// is but one. They meet at `barrier`, and one that throws comes no more. Returns when all have
/// ended, and throws what the first of them has thrown.
void run_together(std::size_t threads, const std::vector<int>& cpus, spin_barrier& barrier,
                  const std::function<void(std::size_t)>& body);

} // namespace farcall::tool
