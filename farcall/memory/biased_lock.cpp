#include <farcall/memory/bell.hpp>
#include <farcall/memory/biased_lock.hpp>

#include <cstdlib>
#include <string_view>
#include <thread>

#include <unistd.h>

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
  if (needs_fence_ || process_barrier()) return;
  // The owner may be inside without our knowing, and nothing else can tell.
  constexpr std::string_view message =
      "farcall: the system now refuses membarrier, which it allowed when the program started "
      "(a seccomp filter set up later?); the program cannot go on\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  std::abort();
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
  mutex_.unlock();
  others_.fetch_sub(1, std::memory_order_release);
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
  mutex_.unlock();
  // Last, so that the lock may be destroyed once this reads zero. Release; partner: the acquire
  // loads in try_lock_as_owner() and settle().
  others_.fetch_sub(1, std::memory_order_release);
}

void biased_lock::settle() const noexcept {
  while (others_.load(std::memory_order_acquire) != 0)
    std::this_thread::yield();
}

} // namespace farcall
