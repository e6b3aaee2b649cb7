#include <farcall/am/completion_descriptor.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/signals.hpp>

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
  // Acquire-release; partner: clear(), which sees what is ready when it undoes our flag.
  if (is_signalled_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  // Fails only when it is readable anyway: after 2^64 signals that nobody took.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void completion_descriptor::clear() noexcept {
  // The descriptor first. The other way round it could take the write of a signal whose flag stays.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(fd_.get(), &count, sizeof count);
  if (is_signalled_.exchange(false, std::memory_order_acq_rel)) notify_if_armed(cleared_);
}

/// Replies to calls of any thread, while the descriptor is not readable; else that it is cleared.
class engine::descriptor_wait final : public wait_condition {
 public:
  descriptor_wait(engine& e, completion_descriptor& d) noexcept
      : wait_condition(no_deadline), engine_(e), descriptor_(d), replies_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override {
    to.push_back(&descriptor_.cleared());
    was_signalled_ = descriptor_.is_signalled();
    if (!was_signalled_) replies_.add_doorbells(to);
  }
  bool look_again() noexcept override {
    if (engine_.stopping_.load(std::memory_order_acquire)) return true;
    if (was_signalled_) return !descriptor_.is_signalled();
    const bool is_over = replies_.look_again();
    if (engine_.has_replies()) {
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

int engine::wait_fd() {
  require_own_process();
  const std::lock_guard guard(mutex_);
  if (completion_descriptor* const made = descriptor_.load(std::memory_order_relaxed))
    return made->get();
  auto made = std::make_unique<completion_descriptor>();
  // What became ready before anybody was to be told counts too.
  made->signal();
  try {
    threads_.emplace_back([this, &descriptor = *made] {
      leave_signals_to_other_threads();
      descriptor_wait condition(*this, descriptor);
      while (!stopping_.load(std::memory_order_acquire))
        sleep({&condition}, nullptr);
    });
  } catch (const std::system_error& e) {
    throw_system_error("starting the thread that tells of completions", e.code().value());
  }
  // Sequentially consistent, with the load; partners: those in stop(). One of the two threads sees
  // what the other has stored, and wakes the one that sleeps.
  completion_descriptor& descriptor = *made.release();
  descriptor_.store(&descriptor, std::memory_order_seq_cst);
  if (stopping_.load(std::memory_order_seq_cst)) notify(descriptor.cleared());
  return descriptor.get();
}

void engine::signal_completion() noexcept {
  completion_descriptor* const d = descriptor_.load(std::memory_order_acquire);
  // Who takes completions in looks at what has become ready, and need not be told.
  if (d != nullptr && progressing_ != this) d->signal();
}

} // namespace farcall::am
