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

/// As often a thread takes the lock, and no other but perhaps the owner, before it becomes its
/// owner.
constexpr std::uint16_t rebias_after = 16;

/// As often the lock goes from one thread to another, neither of which is its owner, before it is
/// shared.
constexpr std::uint16_t share_after = 32;

/// Stands for the generation of a lock while a thread makes it fit for the child.
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

// Never written: no thread is its owner.
constinit biased_lock::owner_slot biased_lock::nobodys_slot_{};

biased_lock::biased_lock() noexcept {
  if (!has_barriers()) go_shared();
}

/// With mutex_ held. The owner does not take the lock from now on; returns its slot, which says
/// whether it has it still.
biased_lock::owner_slot& biased_lock::enter_as_other() noexcept {
  owner_slot& theirs = *owner_slot_.load(std::memory_order_relaxed);
  theirs.is_wanted.store(1, std::memory_order_relaxed);
  if (process_barrier()) return theirs;
  // The owner may be inside without our knowing, and nothing else can tell.
  constexpr std::string_view message =
      "farcall: the system now refuses membarrier, which it allowed when the program started "
      "(a seccomp filter set up later?); the program cannot go on\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  std::abort();
}

void biased_lock::forget_threads_of_parent() noexcept {
  const std::uint32_t now = fork_generation();
  for (;;) {
    // Acquire; partner: the release store below.
    std::uint32_t seen = generation_.load(std::memory_order_acquire);
    if (seen == now) return;
    if (seen != in_transition &&
        generation_.compare_exchange_strong(seen, in_transition, std::memory_order_relaxed)) {
      break;
    }
    std::this_thread::yield();
  }
  // Relaxed: published by the store of the generation.
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
  // Before the mutex, so that whoever leaves knows that we want it. Relaxed: it orders nothing.
  others_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  if (is_shared_) {
    by_mutex_ = true;
    return;
  }
  const owner_slot& theirs = enter_as_other();
  // Acquire; partner: the owner's release store in unlock(). Bounded by the owner's critical
  // section, which lasts no longer than a copy of a few hundred KiB.
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

/// With the lock held by mutex_.
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
  // Does not count on when it can lead to nothing.
  if (now == &owner_slots_.back() || ++in_a_row_ < rebias_after) return;
  turns_ = 0;
  now[1].owner.store(self, std::memory_order_relaxed);
  // The former owner sees it whenever it likes: its own slot says that the lock is wanted.
  owner_slot_.store(now + 1, std::memory_order_relaxed);
}

/// With the lock held by mutex_, and its owner outside, or before anybody uses it. From now on
/// nobody finds itself the owner, as after a rebias, so that the mutex alone is enough.
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
  // Another may just have become its owner.
  if (is_owned_by_this_thread()) {
    owner_slot_.load(std::memory_order_relaxed)->owner.store(nullptr, std::memory_order_relaxed);
  }
  unlock();
}

/// With mutex_ held.
void biased_lock::stop_wanting() noexcept {
  // Others that wait go before the owner. Relaxed: they say so by themselves once they have mutex_.
  if (is_shared_ || others_.load(std::memory_order_relaxed) != 1) return;
  // Release; partner: the acquire load in lock_as_owner().
  owner_slot_.load(std::memory_order_relaxed)->is_wanted.store(0, std::memory_order_release);
}

void biased_lock::unlock_slow() noexcept {
  by_mutex_ = false;
  stop_wanting();
  mutex_.unlock();
  // Last, so that the lock may be destroyed once this reads zero. Release; partner: the acquire
  // load in settle().
  others_.fetch_sub(1, std::memory_order_release);
}

void biased_lock::settle() const noexcept {
  while (others_.load(std::memory_order_acquire) != 0)
    std::this_thread::yield();
}

} // namespace farcall
