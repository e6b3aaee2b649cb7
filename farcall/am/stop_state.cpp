// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/stop_state.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/kept_blocks.hpp>

#include <vector>

namespace farcall::am {
namespace {

thread_local kept_blocks freed;

} // namespace

void* stop_state::operator new(std::size_t bytes) { return freed.allocate(bytes); }
void stop_state::operator delete(void* memory) noexcept { freed.release(memory); }

stop_state::stop_state(counted_ptr<stoppable_calls> calls, node_id origin,
                       std::uint64_t id) noexcept
    : calls_(std::move(calls)), origin_(origin), id_(id) {}

stop_state::stop_state() noexcept = default;
stop_state::~stop_state() = default;

void stop_state::take_out(stop_listener& l) noexcept {
  (l.before_ == nullptr ? first_ : l.before_->after_) = l.after_;
  (l.after_ == nullptr ? last_ : l.after_->before_) = l.before_;
  l.is_listening_ = false;
}

void stop_state::request_stop() noexcept {
  std::unique_lock guard(mutex_);
  if (requested_.load(std::memory_order_relaxed)) return;
  // Release, paired with the acquire load in stop_requested(), so that the stopped handler sees
  // earlier writes of this thread.
  requested_.store(true, std::memory_order_release);
  runs_on_ = std::this_thread::get_id();
  while (first_ != nullptr) {
    stop_listener& l = *first_;
    take_out(l);
    running_ = &l;
    guard.unlock();
    const listener_in_call told{&l, this_stack.told};
    this_stack.told = &told;
    // Do not use the listener after this call, because it may be destroyed in its stop().
    l.stop();
    this_stack.told = told.outer;
    guard.lock();
    running_ = nullptr;
    returned_.notify_all();
  }
}

bool stop_state::add(stop_listener& l) noexcept {
  const std::lock_guard guard(mutex_);
  if (requested_.load(std::memory_order_relaxed)) return false;
  l.before_ = last_;
  l.after_ = nullptr;
  (last_ == nullptr ? first_ : last_->after_) = &l;
  last_ = &l;
  l.is_listening_ = true;
  return true;
}

/// Waits until a listener's stop() has returned, which another fiber of this thread is running.
class stop_state::return_wait final : public wait_condition {
 public:
  return_wait(stop_state& whose, const stop_listener& l) noexcept
      : wait_condition(no_deadline), whose_(whose), listener_(l) {}

  state poll() noexcept override { return poll_again() ? state::over : state::pending; }
  // Add no doorbell, because the awaited stop() runs on another fiber of this very thread. The
  // thread calls poll_again() after that fiber has run, and before the thread sleeps.
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override {
    const std::lock_guard guard(whose_.mutex_);
    return whose_.running_ != &listener_;
  }

 private:
  stop_state& whose_;
  const stop_listener& listener_;
};

void stop_state::remove(stop_listener& l) noexcept {
  std::unique_lock guard(mutex_);
  if (l.is_listening_) return take_out(l);
  if (running_ != &l) return;
  // A listener that removes itself in its own stop() must not wait until that stop() has returned.
  for (const listener_in_call* t = this_stack.told; t != nullptr; t = t->outer)
    if (t->listener == &l) return;
  if (runs_on_ != std::this_thread::get_id())
    return returned_.wait(guard, [&] { return running_ != &l; });
  guard.unlock();
  return_wait wait(*this, l);
  if (fiber_scheduler* const fibers = fiber_scheduler::mine();
      fibers != nullptr && fibers->is_on_fiber())
    fibers->wait(wait);
}

void stop_state::end() noexcept {
  if (calls_) calls_->end(*this);
}

} // namespace farcall::am
