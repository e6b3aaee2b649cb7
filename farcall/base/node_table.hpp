#pragma once

#include <farcall/base/node_id.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace farcall {

/// Numbers of nodes are below it in every job: lanes in shared memory name nodes by two bytes.
inline constexpr std::size_t most_node_numbers = 65536;

/// How many numbers a job has for its nodes, those that join later included, if it starts with
/// `nodes`, at most most_node_numbers: a number is never given twice.
[[nodiscard]] constexpr std::size_t node_capacity(std::size_t nodes) noexcept {
  return std::clamp<std::size_t>(2 * nodes, 1024, most_node_numbers);
}

/// What is known of each node, by number. Entries are added while others read, stay where they are
/// and last as long as the table, so readers take no lock. Any thread may use it; one moves it.
template <class T>
class node_table {
 public:
  /// For numbers below `capacity`.
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
    // Relaxed, as elsewhere here where nobody else uses the table any more.
    for (std::size_t i = 0; i < capacity_; ++i)
      delete entries_[i].load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// Null where nothing was published.
  [[nodiscard]] T* find(node_id node) const noexcept {
    // Acquire; partner: the release exchange in publish().
    return node < capacity_ ? entries_[node].load(std::memory_order_acquire) : nullptr;
  }

  /// Shows the entry to all. The one that was there stays, if there was one. Returns the one that
  /// is there then; null for a number that is too high.
  T* publish(node_id node, std::unique_ptr<T> entry) noexcept {
    if (node >= capacity_) return nullptr;
    T* there = nullptr;
    // Release; partner: the acquire load in find(). Acquire where another thread was faster.
    if (!entries_[node].compare_exchange_strong(there, entry.get(), std::memory_order_acq_rel,
                                                std::memory_order_acquire))
      return there;
    return entry.release();
  }

  /// The entry, made if there is none. Null for a number that is too high. Throws std::bad_alloc.
  T* find_or_make(node_id node) {
    if (T* const there = find(node); there != nullptr || node >= capacity_) return there;
    return publish(node, std::make_unique<T>());
  }

  /// f(node, entry) for each that is there, in the order of their numbers.
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
