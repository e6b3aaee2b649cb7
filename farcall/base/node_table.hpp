// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace farcall {

/// Exclusive upper bound of node numbers in every job. Lanes in shared memory store the number of a
/// node in two bytes.
inline constexpr std::size_t max_node_numbers = 65536;

/// Returns the number of node numbers, at most max_node_numbers, of a job that starts with `nodes`
/// nodes. Nodes that join later also need numbers, because a number is never reused.
[[nodiscard]] constexpr std::size_t node_capacity(std::size_t nodes) noexcept {
  return std::clamp<std::size_t>(2 * nodes, 1024, max_node_numbers);
}

/// Table with one entry for each node, by number. A thread may add entries while other threads
/// read. Readers take no lock, because entries never move and last as long as the table. Any thread
/// may use the table, but while the table itself is moved, only one.
template <class T>
class node_table {
 public:
  /// Makes a table for node numbers below `capacity`.
  explicit node_table(std::size_t capacity = 0)
      : entries_(std::make_unique<std::atomic<T*>[]>(capacity)), capacity_(capacity) {}
  node_table(node_table&& other) noexcept { swap(other); }
  node_table& operator=(node_table&& other) noexcept {
    swap(other);
    return *this;
  }
  node_table(const node_table&) = delete;
  node_table& operator=(const node_table&) = delete;
  ~node_table() {
    // Relaxed, because the destructor has exclusive access.
    for (std::size_t i = 0; i < capacity_; ++i)
      delete entries_[i].load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// Returns the entry of a node, or null if none was published.
  [[nodiscard]] T* find(node_id node) const noexcept {
    // Acquire, paired with the release exchange in publish(), so that the whole entry is visible.
    return node < capacity_ ? entries_[node].load(std::memory_order_acquire) : nullptr;
  }

  /// Adds the entry of a node and makes it visible to other threads, unless the node already has an
  /// entry. Returns the node's entry, which may be another one than `entry`. Returns null if the
  /// number is too high.
  T* publish(node_id node, std::unique_ptr<T> entry) noexcept {
    if (node >= capacity_) return nullptr;
    T* there = nullptr;
    // Release, paired with the acquire load in find(). Also acquire, because this thread may return
    // an entry that another thread has published first.
    if (!entries_[node].compare_exchange_strong(there, entry.get(), std::memory_order_acq_rel,
                                                std::memory_order_acquire))
      return there;
    return entry.release();
  }

  /// Returns the entry of a node, and makes one if there is none. Returns null if the number is too
  /// high. Throws std::bad_alloc.
  T* find_or_make(node_id node) {
    if (T* const there = find(node); there != nullptr || node >= capacity_) return there;
    return publish(node, std::make_unique<T>());
  }

  /// Calls f(node, entry) for each entry, sorted by number.
  template <class F>
  void for_each(F f) const {
    for (std::size_t i = 0; i < capacity_; ++i) {
      const auto node = static_cast<node_id>(i);
      if (T* const there = find(node)) f(node, *there);
    }
  }

 private:
  void swap(node_table& other) noexcept {
    std::swap(entries_, other.entries_);
    std::swap(capacity_, other.capacity_);
  }

  std::unique_ptr<std::atomic<T*>[]> entries_; ///< owned
  std::size_t capacity_ = 0;
};

} // namespace farcall
