#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>

namespace farcall::am {

/// A descriptor for poll() and its like, readable while completions may wait to be taken in
/// (completion channels of verbs, ucp_worker_get_efd). Any thread may use it.
class completion_descriptor {
 public:
  /// Throws error when the process may have no more descriptors.
  completion_descriptor();
  completion_descriptor(const completion_descriptor&) = delete;
  completion_descriptor& operator=(const completion_descriptor&) = delete;
  ~completion_descriptor() = default;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }

  /// There is something to take in: makes it readable, unless it is.
  void signal() noexcept;
  /// Makes it unreadable. Before looking for what there is: whatever comes later signals again.
  void clear() noexcept;

  /// For a child of a fork, which has a copy that would keep it open.
  void close() noexcept { fd_ = {}; }

  [[nodiscard]] bool is_signalled() const noexcept {
    return is_signalled_.load(std::memory_order_acquire);
  }
  /// Notified by clear(), for the thread that then looks for replies again.
  [[nodiscard]] doorbell& cleared() noexcept { return cleared_; }

 private:
  unique_fd fd_;
  std::atomic<bool> is_signalled_{false}; ///< so that only the first signal is a system call
  doorbell cleared_;
};

} // namespace farcall::am
