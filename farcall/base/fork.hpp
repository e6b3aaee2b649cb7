// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstdint>

/// Actions at a fork whose child continues this program. The child has only the forking thread, and
/// a copy of all data, which other threads may have been changing. vfork() and posix_spawn() start
/// other programs, and need no action.
namespace farcall {

namespace detail {
extern std::atomic<std::uint32_t> forks;
} // namespace detail

/// Returns how many forks lead from the process that has loaded the library to this process: 0 in
/// that process itself, 1 in its child, and so on. The number changes only in the child of a fork,
/// while the child has one thread.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // Relaxed, because threads that read the number were started after it changed.
  return detail::forks.load(std::memory_order_relaxed);
}

/// An object that acts when its process forks. The functions of all observers run on the forking
/// thread, in an unspecified order of the observers. Any thread may make and destroy such an
/// object, but not in one of these functions. A derived class calls watch_forks() last in its
/// constructor and unwatch_forks() first in its destructor, because another thread may fork during
/// construction or destruction.
class fork_observer {
 public:
  fork_observer(const fork_observer&) = delete;
  fork_observer& operator=(const fork_observer&) = delete;
  virtual ~fork_observer() = default;

 protected:
  fork_observer() noexcept = default;

  /// Throws std::bad_alloc.
  void watch_forks();
  void unwatch_forks() noexcept;

 private:
  friend struct fork_observers;

  /// Called before the fork. May take a lock, so that the child finds the data that the lock guards
  /// in a consistent state. The two functions below, of which one runs in the parent and one in the
  /// child, then release the lock.
  virtual void before_fork() noexcept {}
  virtual void after_fork_in_parent() noexcept {}
  /// Called in the child. Must not take other locks or allocate, because another thread of the
  /// parent may have held such a lock during the fork.
  virtual void after_fork_in_child() noexcept {}

  fork_observer* before_ = nullptr;
  fork_observer* next_ = nullptr;
};

} // namespace farcall
