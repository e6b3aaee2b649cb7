// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/deferral_sweep.hpp>

#include <chrono>
#include <utility>

namespace farcall::tcp {
namespace {

/// Time from the note that a lane has deferred its bytes to the call of the function that sends
/// them. In most cases the lane's user sends the bytes before that time.
constexpr std::chrono::microseconds sweep_interval{200};

} // namespace

deferral_sweep::deferral_sweep(event_loop& loop, std::function<void()> sweep)
    : loop_(&loop), sweep_(std::move(sweep)) {
  loop.reserve_timer();
}

void deferral_sweep::note() noexcept {
  // Sequentially consistent, like the accesses in expire(). Either expire() sees this note before
  // it ends the sweeps, or this function sees that the sweeps have ended, and begins them again.
  notes_.fetch_add(1, std::memory_order_seq_cst);
  if (!is_sweeping_.load(std::memory_order_seq_cst)) begin();
}

void deferral_sweep::begin() noexcept {
  if (is_sweeping_.exchange(true, std::memory_order_seq_cst)) return;
  loop_->set(*this, clock::now() + sweep_interval);
}

void deferral_sweep::expire() noexcept {
  const std::uint32_t notes = notes_.load(std::memory_order_seq_cst);
  {
    const std::lock_guard guard(mutex_);
    if (!sweep_) return;
    sweep_();
  }
  if (notes != std::exchange(seen_, notes)) {
    loop_->set(*this, clock::now() + sweep_interval);
    return;
  }
  is_sweeping_.store(false, std::memory_order_seq_cst);
  if (notes_.load(std::memory_order_seq_cst) != notes) begin();
}

void deferral_sweep::stop() noexcept {
  loop_->cancel(*this);
  const std::lock_guard guard(mutex_);
  sweep_ = {};
}

} // namespace farcall::tcp
