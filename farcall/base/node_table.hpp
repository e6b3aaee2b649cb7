// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/zeroed_array.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace farcall {

/// Table with one entry for each node, by number. A thread may add entries while other threads
/// read. Readers take no lock, because entries never move and last as long as the table. Places
/// that are not used take no memory. If several nodes have had a place one after the other, the
/// table has an entry for each of them, and finds each by its own number only. Any thread may use
/// the table, but while the table itself is moved, only one.
template <class T>
class node_table {
 public:
  /// An entry with the number of its node. Made by make(), and passed to publish().
  class entry {
   public:
    template <class... Arguments>
    explicit entry(node_id node, Arguments&&... arguments)
        : value(std::forward<Arguments>(arguments)...), node_(node) {}

    T value;

    [[nodiscard]] node_id node() const noexcept { return node_; }

   private:
    friend class node_table;
    node_id node_;
    /// Entry of the node that had the place before, or null. Owned by the table.
    std::atomic<entry*> earlier_{nullptr};
  };

  /// Makes a table for nodes whose places are below `capacity`.
  explicit node_table(std::size_t capacity = 0) : latest_(capacity) {}
  node_table(node_table&& other) noexcept { swap(other); }
  node_table& operator=(node_table&& other) noexcept {
    swap(other);
    return *this;
  }
  node_table(const node_table&) = delete;
  node_table& operator=(const node_table&) = delete;
  ~node_table() {
    // Relaxed, because the destructor has exclusive access.
    const std::size_t end = end_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < end; ++i) {
      entry* next = latest(i).load(std::memory_order_relaxed);
      while (next != nullptr)
        delete std::exchange(next, next->earlier_.load(std::memory_order_relaxed));
    }
  }

  /// Returns the exclusive upper bound of the places in this table.
  [[nodiscard]] std::size_t capacity() const noexcept { return latest_.size(); }

  /// Makes an entry for a node. The table does not have the entry before publish().
  template <class... Arguments>
  [[nodiscard]] static std::unique_ptr<entry> make(node_id node, Arguments&&... arguments) {
    return std::make_unique<entry>(node, std::forward<Arguments>(arguments)...);
  }

  /// Returns the entry of a node, or null if none was published.
  [[nodiscard]] T* find(node_id node) const noexcept {
    const std::size_t place = place_of(node);
    if (place >= latest_.size()) return nullptr;
    // Acquire, paired with the release stores in publish(), so that the whole entry is visible.
    entry* at = latest(place).load(std::memory_order_acquire);
    while (at != nullptr && at->node_ > node)
      at = at->earlier_.load(std::memory_order_acquire);
    return at != nullptr && at->node_ == node ? &at->value : nullptr;
  }

  /// Adds the entry of a node and makes it visible to other threads, unless the node already has an
  /// entry. Returns the node's entry, which may be another one than `made`. Returns null if the
  /// place is too high.
  T* publish(std::unique_ptr<entry> made) noexcept {
    const std::size_t place = place_of(made->node_);
    if (place >= latest_.size()) return nullptr;
    const std::lock_guard guard(mutex_);
    // Relaxed, because entries are added only by threads that hold the mutex.
    entry* later = nullptr;
    entry* at = latest(place).load(std::memory_order_relaxed);
    while (at != nullptr && at->node_ > made->node_) {
      later = at;
      at = at->earlier_.load(std::memory_order_relaxed);
    }
    if (at != nullptr && at->node_ == made->node_) return &at->value;
    made->earlier_.store(at, std::memory_order_relaxed);
    T* const value = &made->value;
    // Release, paired with the acquire loads in find(), so that the whole entry is visible.
    if (later == nullptr) {
      latest(place).store(made.release(), std::memory_order_release);
    } else {
      later->earlier_.store(made.release(), std::memory_order_release);
    }
    // Relaxed, because a thread that calls for_each() need not find an entry that is being added.
    if (end_.load(std::memory_order_relaxed) <= place)
      end_.store(place + 1, std::memory_order_relaxed);
    return value;
  }

  /// Returns the entry of a node, and makes one if there is none. Returns null if the place is too
  /// high. Throws std::bad_alloc.
  T* find_or_make(node_id node) {
    if (T* const there = find(node); there != nullptr || place_of(node) >= capacity()) return there;
    return publish(make(node));
  }

  /// Returns the latest node that has an entry and the place of `node`; no_node if there is none.
  [[nodiscard]] node_id latest_at_place_of(node_id node) const noexcept {
    const std::size_t place = place_of(node);
    const entry* const there =
        place < latest_.size() ? latest(place).load(std::memory_order_acquire) : nullptr;
    return there != nullptr ? there->node_ : no_node;
  }

  /// Calls f(node, entry) for the entry of the latest node of each place, sorted by place.
  template <class F>
  void for_each(F f) const {
    const std::size_t end = end_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < end; ++i) {
      if (entry* const there = latest(i).load(std::memory_order_acquire)) {
        f(there->node_, there->value);
      }
    }
  }

 private:
  void swap(node_table& other) noexcept {
    std::swap(latest_, other.latest_);
    const std::size_t end = end_.load(std::memory_order_relaxed);
    end_.store(other.end_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    other.end_.store(end, std::memory_order_relaxed);
  }
  [[nodiscard]] std::atomic_ref<entry*> latest(std::size_t place) const noexcept {
    return std::atomic_ref<entry*>(latest_[place]);
  }

  /// Entry of the latest node of each place, owned; its `earlier_` leads to the nodes before.
  zeroed_array<entry*> latest_;
  std::atomic<std::size_t> end_{0}; ///< greater than each place that has an entry
  std::mutex mutex_;                ///< held by threads that add entries
};

} // namespace farcall
