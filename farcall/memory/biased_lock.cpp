#include <farcall/memory/bell.hpp>
#include <farcall/memory/biased_lock.hpp>

#include <thread>

namespace farcall {
namespace {

bool barriers_ready() noexcept {
  register_for_barriers();
  return process_barrier();
}

} // namespace

const bool biased_lock::needs_fence_ = !barriers_ready();

void biased_lock::enter_as_other() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!needs_fence_) (void)process_barrier();
}

void biased_lock::lock_slow() noexcept {
  // Announced before the mutex, so that an owner in a loop cannot keep us out.
  others_.fetch_add(1, std::memory_order_seq_cst);
  mutex_.lock();
  enter_as_other();
  // Acquire; partner: the owner's release store in unlock(). Bounded by the owner's critical
  // section, which never blocks.
  for (unsigned spins = 0; held_by_owner_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < 1000) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  by_mutex_ = true;
  if (owner_.load(std::memory_order_relaxed) == nullptr) {
    owner_.store(this_thread_mark(), std::memory_order_relaxed);
  }
}

bool biased_lock::try_lock_slow() noexcept {
  if (!mutex_.try_lock()) return false;
  others_.fetch_add(1, std::memory_order_seq_cst);
  enter_as_other();
  if (held_by_owner_.load(std::memory_order_acquire) == 0) {
    by_mutex_ = true;
    return true;
  }
  others_.fetch_sub(1, std::memory_order_release);
  mutex_.unlock();
  return false;
}

void biased_lock::disown() noexcept {
  if (owner_.load(std::memory_order_relaxed) != this_thread_mark()) return;
  lock();
  owner_.store(nullptr, std::memory_order_relaxed);
  unlock();
}

void biased_lock::unlock_slow() noexcept {
  by_mutex_ = false;
  // Release; partner: the owner's acquire load in try_lock_as_owner().
  others_.fetch_sub(1, std::memory_order_release);
  mutex_.unlock();
}

} // namespace farcall
