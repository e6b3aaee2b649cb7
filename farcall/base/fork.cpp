// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fork.hpp>

#include <mutex>
#include <new>

#include <pthread.h>

namespace farcall {

std::atomic<std::uint32_t> detail::forks{0};

/// List of all observers.
struct fork_observers {
  /// The forking thread holds this mutex until the fork is done.
  static constinit std::mutex mutex;
  static constinit fork_observer* first;

  static void before() noexcept {
    mutex.lock();
    for (fork_observer* o = first; o != nullptr; o = o->next_)
      o->before_fork();
  }
  static void in_parent() noexcept {
    for (fork_observer* o = first; o != nullptr; o = o->next_)
      o->after_fork_in_parent();
    mutex.unlock();
  }
  static void in_child() noexcept {
    // Relaxed, because the child has only one thread.
    detail::forks.fetch_add(1, std::memory_order_relaxed);
    for (fork_observer* o = first; o != nullptr; o = o->next_)
      o->after_fork_in_child();
    mutex.unlock();
  }
  /// Initialised before main(), so that forks are counted even if there are no observers.
  static const int status;
};

constinit std::mutex fork_observers::mutex;
constinit fork_observer* fork_observers::first = nullptr;
const int fork_observers::status = ::pthread_atfork(&before, &in_parent, &in_child);

void fork_observer::watch_forks() {
  if (fork_observers::status != 0) throw std::bad_alloc();
  const std::lock_guard guard(fork_observers::mutex);
  next_ = fork_observers::first;
  if (next_ != nullptr) next_->before_ = this;
  fork_observers::first = this;
}

void fork_observer::unwatch_forks() noexcept {
  const std::lock_guard guard(fork_observers::mutex);
  if (next_ != nullptr) next_->before_ = before_;
  (before_ != nullptr ? before_->next_ : fork_observers::first) = next_;
}

} // namespace farcall
