#pragma once

#include "message_queue.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

namespace farcall::am2 {

/// Messages that found no space, by node, so that one that takes none does not keep others waiting.
/// Any thread.
class outgoing_messages {
 public:
  [[nodiscard]] bool empty() const noexcept {
    // Relaxed: a hint, which the thread that has pushed sees at once.
    return count_.load(std::memory_order_relaxed) == 0;
  }

  /// Throws std::bad_alloc.
  void push(int node, const message& m) {
    message_queue* to = nullptr;
    {
      const std::lock_guard guard(mutex_);
      to = &queues_[node];
    }
    to->push(node, m);
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Gives what waits to `send`, each node's in order and until one has to go on waiting: `send(m)`
  /// returns whether it must, and may push others.
  template <class Send>
  void flush(const Send& send) {
    int node = -1;
    while (message_queue* const queue = next_behind(node)) {
      for (std::size_t n = queue->size(); n != 0; --n) {
        kept_message* const k = queue->pop();
        if (k == nullptr) break;
        if (send(*k)) {
          queue->push_front(k);
          break;
        }
        queue->recycle(k);
        count_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }

 private:
  /// Of the first node behind that one, which becomes that one; null behind the last. Queues stay.
  [[nodiscard]] message_queue* next_behind(int& node) {
    const std::lock_guard guard(mutex_);
    const auto found = queues_.upper_bound(node);
    if (found == queues_.end()) return nullptr;
    node = found->first;
    return &found->second;
  }

  std::mutex mutex_;
  std::map<int, message_queue> queues_; ///< mutex_, to find and to add one
  std::atomic<std::size_t> count_{0};
};

} // namespace farcall::am2
