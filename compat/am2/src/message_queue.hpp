// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::am2 {

/// A message with its own copies of the arguments and the payload.
struct kept_message {
  kept_message* next = nullptr;
  int node = 0; ///< source node of a received message, destination of an outgoing message
  message m;
  std::array<std::int32_t, max_arguments> arguments{};
  /// Payload, aligned to 8; its memory is reused for the next message.
  std::vector<std::uint64_t> payload{};

  /// Throws std::bad_alloc.
  void keep(int of_node, const message& from) {
    node = of_node;
    m = from;
    if (from.arguments != nullptr) {
      const auto count = static_cast<std::size_t>(from.header.arguments());
      std::memcpy(arguments.data(), from.arguments,
                  std::min<std::size_t>(count, max_arguments) * sizeof(std::int32_t));
      m.arguments = arguments.data();
    }
    if (from.payload == nullptr) return;
    payload.resize((from.bytes + 7) / 8);
    if (from.bytes != 0) std::memcpy(payload.data(), from.payload, from.bytes);
    m.payload = payload.data();
  }
};

/// First-in, first-out queue of messages. Can be used by any thread. The queue keeps the memory of
/// recycled messages, so that push() seldom allocates.
class message_queue {
 public:
  message_queue() = default;
  message_queue(const message_queue&) = delete;
  message_queue& operator=(const message_queue&) = delete;
  ~message_queue() {
    for (kept_message* list : {first_, free_}) {
      while (list != nullptr)
        delete std::exchange(list, list->next);
    }
  }

  /// Returns the number of messages in the queue. Other threads may change it at any time.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

  /// Throws std::bad_alloc.
  void push(int node, const message& m) {
    kept_message* k = nullptr;
    {
      const std::lock_guard guard(mutex_);
      if (free_ != nullptr) {
        k = std::exchange(free_, free_->next);
        --free_count_;
      }
    }
    std::unique_ptr<kept_message> made(k != nullptr ? k : new kept_message);
    made->keep(node, m);
    made->next = nullptr;
    const std::lock_guard guard(mutex_);
    *last_ = made.get();
    last_ = &made.release()->next;
    // Release pairs with the acquire load in size(), so that a thread that sees the count also sees
    // the message.
    size_.fetch_add(1, std::memory_order_release);
  }

  /// Takes the first message, which the caller must return to the queue with recycle(). Returns
  /// null if the queue is empty.
  [[nodiscard]] kept_message* pop() noexcept {
    const std::lock_guard guard(mutex_);
    if (first_ == nullptr) return nullptr;
    kept_message* const k = std::exchange(first_, first_->next);
    if (first_ == nullptr) last_ = &first_;
    size_.fetch_sub(1, std::memory_order_relaxed);
    return k;
  }
  void push_front(kept_message* k) noexcept {
    const std::lock_guard guard(mutex_);
    k->next = first_;
    if (first_ == nullptr) last_ = &k->next;
    first_ = k;
    size_.fetch_add(1, std::memory_order_release);
  }

  void recycle(kept_message* k) noexcept {
    std::unique_ptr<kept_message> done(k);
    if (k->payload.capacity() > max_kept_words) return;
    const std::lock_guard guard(mutex_);
    if (free_count_ == max_free) return;
    k->next = std::exchange(free_, done.release());
    ++free_count_;
  }

 private:
  static constexpr unsigned max_free = 256;
  static constexpr std::size_t max_kept_words = 8192; ///< 64 KiB

  std::mutex mutex_;
  kept_message* first_ = nullptr;
  kept_message** last_ = &first_;
  kept_message* free_ = nullptr;
  unsigned free_count_ = 0;
  std::atomic<std::size_t> size_{0};
};

} // namespace farcall::am2
