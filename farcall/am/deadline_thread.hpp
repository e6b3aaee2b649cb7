#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/fork.hpp>

#include <cstddef>
#include <memory>
#include <mutex>

namespace farcall::am {

/// Something that happens at a point in time, unless it is taken back before.
class timed_event : public counted {
 public:
  /// What becomes ready by it depends on the calls of `owner`; null: on nobody's.
  explicit timed_event(client* owner);
  virtual ~timed_event() = default;

 protected:
  /// On the deadline thread, without a lock. The engine of the owner is there, if it was before;
  /// continuations run on another thread. Must not wait.
  virtual void happen() noexcept = 0;

 private:
  friend class deadline_thread;

  std::weak_ptr<engine> owner_;
  time_point when_{};
  // Guarded by the deadline thread's mutex.
  const void* heap_ = nullptr; ///< that it is in
  std::size_t place_ = 0;      ///< there
};

/// Keeps deadlines that no thread waits for, as those of coroutines. One per process, started by
/// the first that is needed. Any thread may use it.
class deadline_thread final : private fork_observer {
 public:
  [[nodiscard]] static deadline_thread& of_process();

  /// Takes what one set() needs, so that it cannot fail. Throws std::bad_alloc and
  /// std::system_error.
  void prepare();
  /// Has `e` happen at `when`, on the other thread, perhaps at once. Once per prepare(). Holds it
  /// until then.
  void set(timed_event& e, time_point when) noexcept;
  /// Takes it back; nothing when it happens, has happened, or was never set.
  void take_back(timed_event& e) noexcept;

 private:
  deadline_thread(); // never destroyed

  void before_fork() noexcept override { mutex_.lock(); }
  void after_fork_in_parent() noexcept override { mutex_.unlock(); }
  void after_fork_in_child() noexcept override;

  /// What the thread works on. A child of a fork has another thread.
  struct work;
  void run(work& w) noexcept;

  std::mutex mutex_;
  work* work_ = nullptr; ///< null before the thread has started; never destroyed
};

} // namespace farcall::am
