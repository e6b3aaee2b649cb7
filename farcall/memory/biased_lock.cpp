// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace farcall {
namespace {

/// Number of times in a row that a thread takes the lock by the mutex before it replaces the owner.
/// The row is interrupted if another thread takes the lock by the mutex, but not if the owner takes
/// the lock without the mutex.
constexpr std::uint16_t rebias_after = 16;

/// Number of times that the lock goes from one thread to another, neither of which is the owner,
/// before the lock becomes shared.
constexpr std::uint16_t share_after = 32;

/// Value of the lock's generation while a thread resets the lock in the child of a fork.
constexpr std::uint32_t in_transition = UINT32_MAX;

bool has_barriers() noexcept {
  static const bool it_has = [] {
    register_for_barriers();
    return process_barrier();
  }();
  return it_has;
}

} // namespace

constinit thread_local const char detail::thread_mark = 0;

// Owner slot of all shared locks. Its owner is always null, so that no thread takes a shared lock
// as owner.
constinit biased_lock::owner_slot biased_lock::nobodys_slot_{};

biased_lock::biased_lock() noexcept {
  if (!has_barriers()) go_shared();
}

/// Announces that another thread wants the lock, and makes sure that the owner sees it. Returns the
/// owner's slot, which tells if the owner still holds the lock. The caller holds mutex_.
biased_lock::owner_slot& biased_lock::enter_as_other() noexcept {
  owner_slot& theirs = *owner_slot_.load(std::memory_order_relaxed);
  theirs.is_wanted.store(1, std::memory_order_relaxed);
  if (process_barrier()) return theirs;
  // Abort. Without the barrier, the owner may hold the lock unseen, and no other method can exclude
  // this.
  constexpr std::string_view message =
      "farcall: the system now refuses membarrier, which it allowed when the program started "
      "(a seccomp filter set up later?); the program cannot go on\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  std::abort();
}

void biased_lock::forget_threads_of_parent() noexcept {
  const std::uint32_t now = fork_generation();
  for (;;) {
    // Acquire, paired with the release store of the generation below, so that the values that
    // another thread has reset are visible.
    std::uint32_t seen = generation_.load(std::memory_order_acquire);
    if (seen == now) return;
    if (seen != in_transition &&
        generation_.compare_exchange_strong(seen, in_transition, std::memory_order_relaxed)) {
      break;
    }
    std::this_thread::yield();
  }
  // Relaxed, because the store of the generation at the end publishes these values.
  for (owner_slot& slot : owner_slots_) {
    slot.owner.store(nullptr, std::memory_order_relaxed);
    slot.held.store(0, std::memory_order_relaxed);
    slot.is_wanted.store(0, std::memory_order_relaxed);
  }
  owner_slot_.store(owner_slots_.data(), std::memory_order_relaxed);
  others_.store(0, std::memory_order_relaxed);
  by_mutex_ = false;
  is_shared_ = false;
  if (!has_barriers()) go_shared();
  turns_ = 0;
  new (&mutex_) std::mutex;
  generation_.store(now, std::memory_order_release);
}

void biased_lock::lock_slow() noexcept {
  if (generation_.load(std::memory_order_relaxed) != fork_generation()) [[unlikely]]
    forget_threads_of_parent();
  // Count this thread before it takes the mutex, so that the thread that unlocks the mutex sees
  // that another thread still wants the lock. Relaxed, because the counter orders no other memory.
  others_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  if (is_shared_) {
    by_mutex_ = true;
    return;
  }
  const owner_slot& theirs = enter_as_other();
  // Acquire, paired with the owner's release store in unlock(), so that the owner's writes are
  // visible. The wait lasts as long as the owner's critical section, which is at most a copy of a
  // few hundred KiB.
  for (unsigned spins = 0; theirs.held.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < 1000) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  by_mutex_ = true;
  consider_owner();
}

/// Makes the calling thread the owner if the lock has no owner, or if this thread has taken it
/// often enough in a row. Makes the lock shared if several threads have taken it alternately often
/// enough. The caller holds the lock by mutex_.
void biased_lock::consider_owner() noexcept {
  const void* const self = this_thread_mark();
  owner_slot* const now = owner_slot_.load(std::memory_order_relaxed);
  const void* const owner = now->owner.load(std::memory_order_relaxed);
  if (owner == nullptr) {
    now->owner.store(self, std::memory_order_relaxed);
    return;
  }
  if (self != std::exchange(last_, self)) in_a_row_ = 0;
  if (owner == self) return;
  if (self != std::exchange(last_other_, self) && ++turns_ == share_after) {
    go_shared();
    return;
  }
  // Keep the owner if no owner slot is left for a new owner, or if this thread has not yet taken
  // the lock often enough in a row.
  if (now == &owner_slots_.back() || ++in_a_row_ < rebias_after) return;
  turns_ = 0;
  now[1].owner.store(self, std::memory_order_relaxed);
  // The former owner may still read its own slot for a while. That does no harm, because its slot
  // says for ever that the lock is wanted, so that the former owner takes the mutex.
  owner_slot_.store(now + 1, std::memory_order_relaxed);
}

/// Makes the lock shared, so that from now on each thread takes the lock by mutex_. Must be called
/// before the first use of the lock, or by a thread that holds the lock by mutex_.
void biased_lock::go_shared() noexcept {
  is_shared_ = true;
  owner_slot_.store(&nobodys_slot_, std::memory_order_relaxed);
}

bool biased_lock::try_lock_slow() noexcept {
  if (!mutex_.try_lock()) return false;
  others_.fetch_add(1, std::memory_order_relaxed);
  if (is_shared_) {
    by_mutex_ = true;
    return true;
  }
  if (enter_as_other().held.load(std::memory_order_acquire) == 0) {
    by_mutex_ = true;
    return true;
  }
  stop_wanting();
  mutex_.unlock();
  others_.fetch_sub(1, std::memory_order_release);
  return false;
}

void biased_lock::disown() noexcept {
  if (!is_owned_by_this_thread()) return;
  lock();
  // Check again, because another thread may have become the owner before lock().
  if (is_owned_by_this_thread()) {
    owner_slot_.load(std::memory_order_relaxed)->owner.store(nullptr, std::memory_order_relaxed);
  }
  unlock();
}

/// Lets the owner take the lock again, if no other thread wants it. The caller holds mutex_.
void biased_lock::stop_wanting() noexcept {
  // Do nothing if other threads wait for the mutex, because they get the lock before the owner.
  // Relaxed, because a waiting thread that is not counted yet announces itself once it has the
  // mutex.
  if (is_shared_ || others_.load(std::memory_order_relaxed) != 1) return;
  // Release, paired with the acquire load in lock_as_owner(), so that the owner sees this thread's
  // writes.
  owner_slot_.load(std::memory_order_relaxed)->is_wanted.store(0, std::memory_order_release);
}

void biased_lock::unlock_slow() noexcept {
  by_mutex_ = false;
  stop_wanting();
  mutex_.unlock();
  // Subtract last, because the lock may be destroyed once the count is zero. Release, paired with
  // the acquire load in settle().
  others_.fetch_sub(1, std::memory_order_release);
}

void biased_lock::settle() const noexcept {
  while (others_.load(std::memory_order_acquire) != 0)
    std::this_thread::yield();
}

} // namespace farcall
