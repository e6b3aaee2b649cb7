#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstdint>

/// What happens when a process forks without running another program. The child has one thread, the
/// one that forked, and a copy of everything that the others were in the middle of. vfork() and
/// posix_spawn() start programs and concern nobody here.
namespace farcall {

namespace detail {
extern std::atomic<std::uint32_t> forks;
} // namespace detail

/// How many forks lie between the program that was started and this process, as far as the library
/// was there. Changes in a child only, while it has one thread.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // Relaxed: the threads that read it were started after it changed.
  return detail::forks.load(std::memory_order_relaxed);
}

/// An object that has to do something when its process forks. The functions run on the thread that
/// forks, in no particular order of objects. Any thread may make and destroy one, but not in one of
/// these functions; whoever is told already, and still, calls watch_forks() last in its constructor
/// and unwatch_forks() first in its destructor, since another thread may fork meanwhile.
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

  /// Before the fork. May take a lock, so that the child finds whole what it guards; the other two
  /// release it.
  virtual void before_fork() noexcept {}
  virtual void after_fork_in_parent() noexcept {}
  /// Takes no lock and allocates nothing: other threads may have been doing so.
  virtual void after_fork_in_child() noexcept {}

  fork_observer* before_ = nullptr;
  fork_observer* next_ = nullptr;
};

} // namespace farcall
