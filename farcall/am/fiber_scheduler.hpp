#pragma once

#include <farcall/am/fiber.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace farcall::am {

/// Something that a thread, or a fiber of it, waits for.
class wait_condition {
 public:
  explicit wait_condition(time_point deadline) noexcept : deadline_(deadline) {}
  wait_condition(const wait_condition&) = delete;
  wait_condition& operator=(const wait_condition&) = delete;

  enum class state : unsigned char {
    pending,
    advanced, ///< pending, but poll() may find more to do at once
    over,
  };

  /// Does what brings it nearer, without blocking. Continuations that become due are queued on the
  /// thread.
  virtual state poll() noexcept = 0;

  /// Adds the doorbells that are notified when poll() may say something else.
  virtual void add_doorbells(std::vector<doorbell*>& to) = 0;
  /// Before a sleep on them, when they have been armed: true when poll() should be asked once more.
  [[nodiscard]] virtual bool look_again() noexcept = 0;
  /// Until when a thread may sleep without asking poll().
  [[nodiscard]] virtual time_point next_look() const noexcept { return deadline_; }

  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }

 protected:
  ~wait_condition() = default;

 private:
  friend class fiber_scheduler;

  time_point deadline_;
  fiber* waiting_ = nullptr; ///< suspended until it is over
};

/// The fibers of one thread of the library's own, one that runs handlers. A handler that waits does
/// not keep others from running: these run on fibers, and each goes on when what it waits for is
/// there, in whatever order that happens. A fiber never changes its thread, so handlers may use
/// thread-local variables.
class fiber_scheduler {
 public:
  /// For the calling thread.
  fiber_scheduler() noexcept;
  fiber_scheduler(const fiber_scheduler&) = delete;
  fiber_scheduler& operator=(const fiber_scheduler&) = delete;
  /// When nothing is suspended.
  ~fiber_scheduler();

  /// The calling thread's; null for threads that run no handlers.
  [[nodiscard]] static fiber_scheduler* mine() noexcept;
  /// The thread is not one that runs handlers any more; for those that fork. Outside fibers.
  static void leave_thread() noexcept;

  [[nodiscard]] bool is_on_fiber() const noexcept { return current_ != nullptr; }
  [[nodiscard]] bool has_suspended() const noexcept { return !suspended_.empty(); }

  /// Runs `what(argument)` on a fiber until it returns or waits. False, and nothing is run, when as
  /// many fibers of the process are suspended as may be, or when no stack can be had.
  [[nodiscard]] bool run(fiber::body what, void* argument) noexcept;

  /// On a fiber: suspends it until `c` is over or its deadline has passed.
  void wait(wait_condition& c) noexcept;

  /// Lets fibers go on whose wait is over; true when there was one. Asks a few of them: those that
  /// began to wait last, and others in turn, so that many that wait cost no more than a few.
  bool resume_ready() noexcept;

  [[nodiscard]] const std::vector<wait_condition*>& suspended() const noexcept {
    return suspended_;
  }

  /// How many fibers may be suspended in a process.
  static constexpr unsigned most_suspended = 4096;

 private:
  [[nodiscard]] std::unique_ptr<fiber> take_fiber() noexcept;
  bool resume_if_ready(std::size_t place) noexcept;
  template <class Entry>
  void enter(std::unique_ptr<fiber> f, const Entry& entry) noexcept;

  fiber* current_ = nullptr;
  std::size_t running_ = 0; ///< fibers that have begun or gone on, one inside the other
  std::size_t next_ = 0;    ///< place of the next one to ask
  std::vector<wait_condition*> suspended_;      ///< in the order in which they began to wait
  std::vector<std::unique_ptr<fiber>> waiting_; ///< those of suspended_, in any order
  std::vector<std::unique_ptr<fiber>> idle_;
};

} // namespace farcall::am
