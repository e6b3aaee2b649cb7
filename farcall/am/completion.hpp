// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

namespace farcall::am {

class client;
class requester;

/// Tells a waiting thread how many replies to expect in a lane. With `many`, the thread polls for
/// further replies after it has found one. With `one`, the thread does not, because that poll would
/// only fetch another cache line.
enum class reply_count : bool { one, many };

/// An operation that ends once: a call, which ends with its reply, or a local event. The guard
/// protects the state of the operation. For a call, it is the lane's guard. Only ready() and
/// is_replied() read the state without the guard. attach() and detach() lock the guard themselves.
class completion {
 public:
  completion(client* owner, requester* l, biased_lock& guard) noexcept
      : owner_(owner), lane_(l), guard_(&guard) {}
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;

  /// True if the completion has ended. Any thread may call ready() while the completion has a
  /// holder.
  [[nodiscard]] bool ready() const noexcept {
    // Acquire, paired with the release store in become(), so that the result is visible.
    return state_.load(std::memory_order_acquire) >= state::ended;
  }

  /// True if the completion is a pending call whose reply was read without an error. May be false
  /// for such a call if its end needed more work than reading the reply.
  [[nodiscard]] bool is_replied() const noexcept {
    // Acquire, paired with the release store in become(), so that the result is visible.
    return state_.load(std::memory_order_acquire) == state::replied;
  }

  /// Returns the error of the completion, or null for success. Valid once the completion is ready.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// Registers the continuation `c`, which the thread that makes the completion ready runs. If the
  /// completion is ready already, the calling thread runs `c`, at once or after its queued
  /// continuations. A completion has at most one continuation.
  void attach(continuation* c) noexcept;
  /// Takes the continuation `c` back. Returns false if `c` has run, or another thread is about to
  /// run it.
  [[nodiscard]] bool detach(const continuation* c) noexcept;

  /// Returns the client whose threads complete this event, or null for a local event that is not
  /// bound to a client yet.
  [[nodiscard]] client* owner() const noexcept {
    // Relaxed, because the owner is set once, either before other threads know the event, or under
    // the guard.
    return owner_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] requester* source() const noexcept { return lane_; }
  [[nodiscard]] biased_lock& guard() const noexcept { return *guard_; }

 protected:
  ~completion() = default;

  friend class requester;

  enum class state : std::uint8_t {
    pending,
    noted, ///< pending; when the call ends, requester::finish() must be called
    ended,
    replied, ///< ended without an error, and without other work than reading the reply
    idle,    ///< free pending call that has not been used for some time
  };
  void become(state s) noexcept { state_.store(s, std::memory_order_release); }

  /// Marks the completion as ready. Call with the guard held. Returns the continuation to run after
  /// the guard is released, or null.
  [[nodiscard]] continuation* mark_ready() noexcept {
    become(state::ended);
    continuation* then = then_;
    then_ = nullptr;
    return then;
  }

  std::atomic<client*> owner_;
  requester* lane_; ///< lane of the awaited reply; null for local events
  biased_lock* guard_;
  std::atomic<state> state_{state::pending};
  /// True if no code holds the completion any more. The guard protects it.
  bool abandoned_ = false;
  continuation* then_ = nullptr;
  std::exception_ptr failure_;
};

/// Spins for the reply to a call for as long as a short call takes, which costs less than
/// client::wait(). Returns true if the reply has come. Returns false at once if the thread has
/// other work that it should do while it waits.
[[nodiscard]] bool spin_for_reply(completion& c, reply_count expected) noexcept;

/// A local event, completed by code of this process. Starts with two references, one for the holder
/// and one for the completing side. Only release() may destroy the event.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): release() destroys it
class local_completion : public completion {
 public:
  explicit local_completion(client* owner) noexcept : completion(owner, nullptr, own_guard_) {}

  /// Sets the client on whose threads the event depends. Needed if the constructor was called
  /// without a client.
  void bind(client& owner) noexcept;

  /// Waits for an event that another thread of the program completes, in a process without a job.
  /// Sleeps without polling. Returns false if the deadline has passed.
  [[nodiscard]] bool wait_without_client(time_point deadline) noexcept;
  /// Returns the doorbell that wakes threads which wait for events without a client.
  [[nodiscard]] static doorbell& doorbell_of_no_client() noexcept;

  /// Does a part of the event's work on the calling thread, which waits for the event until
  /// `until`. Returns true if a part was done. Returns false if the event has no work that the
  /// calling thread could end before `until`.
  virtual bool help(time_point /*until*/) noexcept { return false; }

  /// Notes that the holder gives up an event that was not ready at its deadline. Called before the
  /// holder releases the event.
  virtual void give_up() noexcept {}

  /// Ends the event and releases the completing side's reference. Call once.
  void complete(std::exception_ptr failure) noexcept;
  /// Does the same, but requires that the calling thread has both references, so that no other
  /// thread can wait for the event.
  void complete_unshared(std::exception_ptr failure) noexcept {
    failure_ = std::move(failure);
    become(state::ended);
    references_.store(1, std::memory_order_relaxed);
  }

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // Acquire and release, so that the thread that releases the last reference sees the writes of
    // all earlier holders. The last holder needs no atomic decrement, which would cost more.
    if (references_.load(std::memory_order_acquire) == 1 ||
        references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

 protected:
  virtual ~local_completion() = default;

 private:
  biased_lock own_guard_{biased_lock::shared{}};
  std::atomic<std::uint32_t> references_{2};
};

} // namespace farcall::am
