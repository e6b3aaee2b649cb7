// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message_queue.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

namespace farcall::am2 {

/// Messages that could not be sent because there was no space. Each node has a separate queue, so
/// that a node without space does not delay messages to other nodes. Can be used by any thread.
class outgoing_messages {
 public:
  [[nodiscard]] bool empty() const noexcept {
    // The load is relaxed, because callers use the result only as a hint: other threads may push a
    // message at any time. A thread that has pushed a message itself always sees the new count.
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

  /// Calls `send(m)` for the queued messages of each node in order. If `send` returns true, the
  /// message stays in the queue, together with all later messages to the same node. `send` may push
  /// more messages.
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
  /// Sets `node` to the next node that has a queue, and returns that queue; null after the last
  /// node. The queue stays valid, because queues are never removed.
  [[nodiscard]] message_queue* next_behind(int& node) {
    const std::lock_guard guard(mutex_);
    const auto found = queues_.upper_bound(node);
    if (found == queues_.end()) return nullptr;
    node = found->first;
    return &found->second;
  }

  std::mutex mutex_;
  std::map<int, message_queue> queues_; ///< mutex_ is needed to find or add a queue, not to use it
  std::atomic<std::size_t> count_{0};
};

} // namespace farcall::am2
