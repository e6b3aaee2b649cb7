#include <farcall/am/stop_state.hpp>
#include <farcall/am/stoppable_calls.hpp>

namespace farcall::am {

stop_state::stop_state(counted_ptr<stoppable_calls> calls, node_id origin,
                       std::uint64_t id) noexcept
    : calls_(std::move(calls)), origin_(origin), id_(id) {}

stop_state::~stop_state() = default;

void stop_state::take_out(stop_listener& l) noexcept {
  (l.before_ == nullptr ? first_ : l.before_->after_) = l.after_;
  (l.after_ == nullptr ? last_ : l.after_->before_) = l.before_;
  l.is_listening_ = false;
}

void stop_state::request_stop() noexcept {
  std::unique_lock guard(mutex_);
  if (requested_.load(std::memory_order_relaxed)) return;
  // Release; partner: the acquire load in stop_requested().
  requested_.store(true, std::memory_order_release);
  runs_on_ = std::this_thread::get_id();
  while (first_ != nullptr) {
    stop_listener& l = *first_;
    take_out(l);
    running_ = &l;
    guard.unlock();
    // It may end itself.
    l.stop();
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

void stop_state::remove(stop_listener& l) noexcept {
  std::unique_lock guard(mutex_);
  if (l.is_listening_) return take_out(l);
  // One that removes itself must not wait for its own end.
  if (running_ != &l || runs_on_ == std::this_thread::get_id()) return;
  returned_.wait(guard, [&] { return running_ != &l; });
}

void stop_state::end() noexcept { calls_->end(*this); }

} // namespace farcall::am
