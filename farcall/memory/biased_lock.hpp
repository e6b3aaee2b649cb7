// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace farcall {

namespace detail {
// The library defines this variable, so that all modules of a program share it, even if they hide
// their symbols.
extern constinit thread_local const char thread_mark;
} // namespace detail

/// Returns the identity of the calling thread for biased locks, which is the address of a
/// thread-local variable. Tests that simulate threads define FARCALL_THIS_THREAD_MARK before they
/// include this file.
[[nodiscard]] inline const void* this_thread_mark() noexcept {
#ifdef FARCALL_THIS_THREAD_MARK
  return FARCALL_THIS_THREAD_MARK;
#else
  return &detail::thread_mark;
#endif
}

/// A lock that costs its owner thread two plain stores and a load, and any other thread a system
/// call. While another thread wants the lock, the owner takes the lock by the mutex, like other
/// threads. Not recursive.
///
/// The owner announces itself and then checks if other threads want the lock. Another thread
/// announces itself, makes all threads pass a barrier, and then checks if the owner holds the lock.
/// (This is Dekker's scheme, in which one side pays for the barrier.) The first thread that calls
/// lock() becomes the owner. If one other thread keeps taking the lock, that thread becomes the
/// owner, because a lane is often used by another thread than opened it. When the owner changes in
/// this way, the former owner could be between two of its own stores. The new owner therefore gets
/// a new owner slot. The former owner's slot says for ever that the lock is wanted, so that the
/// former owner takes the lock by the mutex. When all slots have been used, the lock stays with its
/// last owner.
///
/// A lock that several other threads take alternately becomes *shared* for ever. A shared lock has
/// no owner, and costs each thread a mutex and no system call. If the system does not offer the
/// barrier, all locks are shared.
///
/// In the child of a fork, the lock is free, whichever thread of the parent held it.
class biased_lock {
  struct owner_slot {
    std::atomic<const void*> owner{nullptr};
    std::atomic<std::uint32_t> held{0};
    std::atomic<std::uint32_t> is_wanted{0}; ///< 1 if other threads want the lock; changed with
                                             ///< mutex_ held
  };

 public:
  biased_lock() noexcept;
  /// Makes a lock that is shared from the start. For data that each thread uses so rarely that the
  /// system call of a biased lock would not pay off.
  struct shared {};
  explicit biased_lock(shared /*tag*/) noexcept : owner_slot_(&nobodys_slot_), is_shared_(true) {}
  biased_lock(const biased_lock&) = delete;
  biased_lock& operator=(const biased_lock&) = delete;

  [[nodiscard]] bool is_owned_by_this_thread() const noexcept {
    return owner_slot_.load(std::memory_order_relaxed)->owner.load(std::memory_order_relaxed) ==
           this_thread_mark();
  }

  /// Gives up ownership. Does nothing if the calling thread is not the owner. An owner must call
  /// this before it ends, and must not hold the lock at that time.
  void disown() noexcept;

  void lock() noexcept {
    if (!try_lock_as_owner()) lock_slow();
  }

  void unlock() noexcept {
    if (!by_mutex_) [[likely]] {
      // Release, paired with the acquire load in lock_slow(), so that the next holder sees this
      // thread's writes.
      owner_slot_.load(std::memory_order_relaxed)->held.store(0, std::memory_order_release);
    } else {
      unlock_slow();
    }
  }

  /// Waits until the last holder has left unlock(). Called before the lock is destroyed, when no
  /// thread will take it any more.
  void settle() const noexcept;

  /// Holds the lock for its owner, at the least cost. The object converts to false, and holds no
  /// lock, if the calling thread is not the owner or another thread wants the lock.
  class as_owner {
   public:
    explicit as_owner(biased_lock& l) noexcept : slot_(l.lock_as_owner()) {}
    as_owner(const as_owner&) = delete;
    as_owner& operator=(const as_owner&) = delete;
    ~as_owner() {
      // Release, paired with the acquire load in lock_slow(), so that the next holder sees this
      // thread's writes.
      if (slot_ != nullptr) slot_->held.store(0, std::memory_order_release);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return slot_ != nullptr; }

   private:
    owner_slot* slot_;
  };

  /// Takes the lock if it is free. May fail although the lock is free.
  [[nodiscard]] bool try_lock() noexcept { return try_lock_as_owner() || try_lock_slow(); }

 private:
  static constexpr std::size_t owner_slots = 3;

  bool try_lock_as_owner() noexcept { return lock_as_owner() != nullptr; }

  /// Takes the lock for its owner. Returns null if the calling thread is not the owner, or another
  /// thread wants the lock.
  owner_slot* lock_as_owner() noexcept {
    owner_slot* const mine = owner_slot_.load(std::memory_order_relaxed);
    if (mine->owner.load(std::memory_order_relaxed) != this_thread_mark()) return nullptr;
    mine->held.store(1, std::memory_order_relaxed);
    // Keep the compiler from exchanging the store and the load. Another thread that wants the lock
    // makes this processor pass a barrier, which keeps the processor from exchanging them.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire, paired with the release store in stop_wanting(), so that the last holder's writes
    // are visible.
    if (mine->is_wanted.load(std::memory_order_acquire) == 0) [[likely]] {
      // Tell the compiler that the pointer is not null, so that callers' null checks disappear.
      if (mine == nullptr) __builtin_unreachable();
      return mine;
    }
    mine->held.store(0, std::memory_order_release);
    return nullptr;
  }

  void lock_slow() noexcept;
  bool try_lock_slow() noexcept;
  owner_slot& enter_as_other() noexcept;
  void stop_wanting() noexcept;
  void unlock_slow() noexcept;
  void consider_owner() noexcept;
  void go_shared() noexcept;
  void forget_threads_of_parent() noexcept;

  static owner_slot nobodys_slot_; ///< owner slot of all shared locks

  std::array<owner_slot, owner_slots> owner_slots_{};
  std::atomic<owner_slot*> owner_slot_{
      owner_slots_.data()}; ///< slot of the owner; changes with mutex_ held, while the owner does
                            ///< not hold the lock
  std::atomic<std::uint32_t> others_{0}; ///< number of threads that hold mutex_, wait for it or
                                         ///< leave it
  bool by_mutex_ = false;                ///< true if the holder of the lock has mutex_; only the
                                         ///< holder reads this
  bool is_shared_ = false;               ///< true if the lock is shared; guarded by mutex_, like
                                         ///< the plain members below
  std::uint16_t in_a_row_ = 0; ///< number of times in a row that last_ has taken the lock by the
                               ///< mutex
  std::uint16_t turns_ = 0;    ///< number of times that the lock went to another thread
                               ///< than last_other_
  std::atomic<std::uint32_t> generation_{fork_generation()}; ///< fork generation of the recorded
                                                             ///< threads
  const void* last_ = nullptr;
  const void* last_other_ = nullptr; ///< last thread that took the lock and was not the owner
  std::mutex mutex_;
};

} // namespace farcall
