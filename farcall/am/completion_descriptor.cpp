// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion_descriptor.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/wait_conditions.hpp>
#include <farcall/base/error.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::am {

completion_descriptor::completion_descriptor() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw_system_error("making a descriptor that tells of completions", errno);
}

void completion_descriptor::signal() noexcept {
  // Acquire-release, paired with the exchange in clear(). If clear() resets the flag that this
  // exchange has found set, the thread in clear() sees the completions that are ready now, and its
  // next poll finds them.
  if (is_signalled_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  // This write fails only if the descriptor is readable anyway, after 2^64 signals that were not
  // read.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void completion_descriptor::clear() noexcept {
  // Read the descriptor before resetting the flag. In the other order, read() could consume the
  // write of a later signal() while the flag stays set, so that no further signal would write.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(fd_.get(), &count, sizeof count);
  if (is_signalled_.exchange(false, std::memory_order_acq_rel)) notify_if_armed(cleared_);
}

namespace {

/// Condition for which the descriptor's thread waits. While the descriptor is unreadable, the
/// thread waits for a reply to a call of any thread, and then signals. While the descriptor is
/// readable, the thread waits only for completion_descriptor::clear(), because further signals
/// would have no effect.
class descriptor_wait final : public wait_condition {
 public:
  descriptor_wait(engine& e, completion_descriptor& d) noexcept
      : wait_condition(no_deadline), engine_(e), descriptor_(d), replies_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override {
    to.push_back(&descriptor_.cleared());
    was_signalled_ = descriptor_.is_signalled();
    if (!was_signalled_) replies_.add_doorbells(to);
  }
  bool poll_again() noexcept override {
    if (engine_.workers().is_stopping()) return true;
    if (was_signalled_) return !descriptor_.is_signalled();
    const bool is_over = replies_.poll_again();
    if (engine_.lanes().has_replies()) {
      descriptor_.signal();
      return true;
    }
    return is_over;
  }

 private:
  engine& engine_;
  completion_descriptor& descriptor_;
  bool was_signalled_ = false;
  any_reply replies_;
};

} // namespace

int waiter::wait_fd() {
  owner_.require_own_process();
  const std::lock_guard guard(mutex_);
  if (completion_descriptor* const made = descriptor_.load(std::memory_order_relaxed))
    return made->get();
  auto made = std::make_unique<completion_descriptor>();
  // Signal once, so that the descriptor also reports completions that became ready before this
  // first call.
  made->signal();
  try {
    workers_.add_thread(library_thread("farcall-worker", [this, &descriptor = *made] {
      descriptor_wait condition(owner_, descriptor);
      while (!workers_.is_stopping())
        sleep({&condition}, nullptr);
    }));
  } catch (const std::system_error& e) {
    throw_system_error("starting the thread that tells of completions", e.code().value());
  }
  // Sequentially consistent, like the load in is_stopping() below, and paired with the exchange of
  // the stop flag and the load of descriptor_ in worker_pool::stop(). This thread sees the stop
  // flag, or the stopping thread sees the descriptor. At least one of them therefore wakes the
  // descriptor's thread, which must end.
  completion_descriptor& descriptor = *made.release();
  descriptor_.store(&descriptor, std::memory_order_seq_cst);
  if (workers_.is_stopping()) farcall::notify(descriptor.cleared());
  return descriptor.get();
}

void waiter::wake_descriptor_thread() noexcept {
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_seq_cst))
    farcall::notify(d->cleared());
}

void waiter::after_fork_in_child() noexcept {
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_relaxed)) d->close();
}

void waiter::signal_completion() noexcept {
  completion_descriptor* const d = descriptor_.load(std::memory_order_acquire);
  // A thread in poll_all() needs no signal, because poll_all() receives all replies anyway.
  if (d != nullptr && polling_ != this) d->signal();
}

} // namespace farcall::am
