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
// Defined in the library: one for all parts of a program, whatever they hide.
extern constinit thread_local const char thread_mark;
} // namespace detail

/// Identity of a thread for biased locks: the address of one of its thread-local variables. A test
/// whose threads are not the system's defines FARCALL_THIS_THREAD_MARK before including this file.
[[nodiscard]] inline const void* this_thread_mark() noexcept {
#ifdef FARCALL_THIS_THREAD_MARK
  return FARCALL_THIS_THREAD_MARK;
#else
  return &detail::thread_mark;
#endif
}

/// A lock that costs its owner thread two plain stores and a load, and everybody else a system
/// call. Not recursive. The owner gives way by itself when another thread asks.
///
/// The owner announces itself and then looks whether others want the lock; others say that they do,
/// make all threads pass a barrier, and then look for the owner (Dekker's scheme with the barrier
/// paid by one side only). A lock without an owner is adopted by the first thread that calls
/// lock(), and one that always the same other thread takes is rebiased to that thread: a lane is
/// often used by another thread than opened it. The former owner could be between two of its own
/// stores at that moment, so each owner has an owner slot of its own, which from then on says for
/// ever that the lock is wanted; when all slots have been used the lock stays with its last owner.
///
/// A lock that several others take by turns goes *shared*: nobody owns it any more, and it costs
/// everybody a mutex and no system call. It stays so. Where the system has no such barrier, all
/// locks are.
///
/// In a child of a fork the lock is free, whatever threads of the parent had it.
class biased_lock {
  struct owner_slot {
    std::atomic<const void*> owner{nullptr};
    std::atomic<std::uint32_t> held{0};
    std::atomic<std::uint32_t> is_wanted{0}; ///< by others; changes under mutex_
  };

 public:
  biased_lock() noexcept;
  /// Shared from the start, for what each thread takes too rarely to pay a system call for.
  struct shared {};
  explicit biased_lock(shared /*tag*/) noexcept : owner_slot_(&nobodys_slot_), is_shared_(true) {}
  biased_lock(const biased_lock&) = delete;
  biased_lock& operator=(const biased_lock&) = delete;

  [[nodiscard]] bool is_owned_by_this_thread() const noexcept {
    return owner_slot_.load(std::memory_order_relaxed)->owner.load(std::memory_order_relaxed) ==
           this_thread_mark();
  }

  /// Gives up ownership; does nothing when the calling thread is not the owner. A thread that ends
  /// must call it. Not while holding the lock.
  void disown() noexcept;

  void lock() noexcept {
    if (!try_lock_as_owner()) lock_slow();
  }

  void unlock() noexcept {
    if (!by_mutex_) [[likely]] {
      // Release; partner: the acquire load in lock_slow().
      owner_slot_.load(std::memory_order_relaxed)->held.store(0, std::memory_order_release);
    } else {
      unlock_slow();
    }
  }

  /// Waits until the last holder has left unlock(). Before the lock is destroyed, by whoever knows
  /// that nobody will take it any more.
  void settle() const noexcept;

  /// Holds the lock for its owner, at the least cost; false when the calling thread is not the
  /// owner or another one wants the lock.
  class as_owner {
   public:
    explicit as_owner(biased_lock& l) noexcept : slot_(l.lock_as_owner()) {}
    as_owner(const as_owner&) = delete;
    as_owner& operator=(const as_owner&) = delete;
    ~as_owner() {
      // Release; partner: the acquire load in lock_slow().
      if (slot_ != nullptr) slot_->held.store(0, std::memory_order_release);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return slot_ != nullptr; }

   private:
    owner_slot* slot_;
  };

  /// Takes the lock if nobody holds it. May fail for no reason.
  [[nodiscard]] bool try_lock() noexcept { return try_lock_as_owner() || try_lock_slow(); }

 private:
  static constexpr std::size_t owner_slots = 3;

  bool try_lock_as_owner() noexcept { return lock_as_owner() != nullptr; }

  /// Null where that fails.
  owner_slot* lock_as_owner() noexcept {
    owner_slot* const mine = owner_slot_.load(std::memory_order_relaxed);
    if (mine->owner.load(std::memory_order_relaxed) != this_thread_mark()) return nullptr;
    mine->held.store(1, std::memory_order_relaxed);
    // Compiler order only; the other side's barrier supplies the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire; partner: the release store in stop_wanting().
    if (mine->is_wanted.load(std::memory_order_acquire) == 0) [[likely]] {
      // So that nobody looks again.
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

  static owner_slot nobodys_slot_; ///< of locks that are shared

  std::array<owner_slot, owner_slots> owner_slots_{};
  std::atomic<owner_slot*> owner_slot_{
      owner_slots_.data()};              ///< changes under mutex_, while nobody else is inside
  std::atomic<std::uint32_t> others_{0}; ///< threads that hold mutex_, wait for it or leave it
  bool by_mutex_ = false;                ///< how the holder took the lock; only it looks
  bool is_shared_ = false;               ///< under mutex_, as what follows
  std::uint16_t in_a_row_ = 0;           ///< times that last_ took it since another did
  std::uint16_t turns_ = 0;              ///< times that another took it than last_other_
  std::atomic<std::uint32_t> generation_{fork_generation()}; ///< of these threads
  const void* last_ = nullptr;
  const void* last_other_ = nullptr; ///< but for the owner
  std::mutex mutex_;
};

} // namespace farcall
