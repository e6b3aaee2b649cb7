#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <cstdint>
#include <exception>

namespace farcall::am {

class client;
class requester;

/// Replies that a thread expects when it waits for that to one call. Behind the last of several,
/// it looks for more; behind a single one that would only be to fetch another line.
enum class reply_count : bool { one, many };

/// Something that becomes ready once: the reply to a call, or a local event. Everything but
/// ready() happens under `guard`, which is the lane's for calls.
class completion {
 public:
  completion(client* owner, requester* l, biased_lock& guard) noexcept
      : owner_(owner), lane_(l), guard_(&guard) {}
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;

  /// May be called by any thread at any time while the completion is held.
  [[nodiscard]] bool ready() const noexcept {
    // Acquire; partner: the release store in become(). The result is visible afterwards.
    return state_.load(std::memory_order_acquire) >= state::ended;
  }

  /// Ready, and a pending_call whose reply has been read: nothing has gone wrong. One that is not
  /// may be so, too, if more than that was to do at its end.
  [[nodiscard]] bool is_replied() const noexcept {
    // Acquire; partner: as in ready().
    return state_.load(std::memory_order_acquire) == state::replied;
  }

  /// What went wrong, or null. Only once ready.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// Arranges for `c` to run once ready, on the thread that makes it so; here, at once or behind
  /// those that run already, when it is ready. At most one.
  void attach(continuation* c) noexcept;
  /// Takes it back; false when it has run, or another thread is about to run it.
  [[nodiscard]] bool detach(const continuation* c) noexcept;

  /// Whose threads make it ready; null for a local event that does not know, or not yet.
  [[nodiscard]] client* owner() const noexcept {
    // Relaxed: it is set for good, before it matters or under the guard.
    return owner_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] requester* source() const noexcept { return lane_; }
  [[nodiscard]] biased_lock& guard() const noexcept { return *guard_; }

 protected:
  ~completion() = default;

  friend class requester;

  enum class state : std::uint8_t {
    pending,
    noted, ///< pending, and more is to do at its end than to say that it is ready
    ended,
    replied, ///< ended by a reply, and nothing more was to do
    rested,  ///< of a pending call that nobody has taken for a while
  };
  void become(state s) noexcept { state_.store(s, std::memory_order_release); }

  /// With the guard held. Returns the continuation to run after it is released, or null.
  [[nodiscard]] continuation* mark_ready() noexcept {
    become(state::ended);
    continuation* then = then_;
    then_ = nullptr;
    return then;
  }

  std::atomic<client*> owner_;
  requester* lane_; ///< whose replies make it ready; null for local events
  biased_lock* guard_;
  std::atomic<state> state_{state::pending};
  bool abandoned_ = false; ///< nobody holds it any more; guarded
  continuation* then_ = nullptr;
  std::exception_ptr failure_;
};

/// A local event, completed by code of this process. Shared by whoever holds it and whoever
/// completes it; starts with these two references. Only release() may destroy it.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): release() destroys it
class local_completion : public completion {
 public:
  explicit local_completion(client* owner) noexcept : completion(owner, nullptr, own_guard_) {}

  /// For an event that learns only later whose threads it depends on.
  void bind(client& owner) noexcept;

  /// Waits without looking for anything: for an event that a thread of the program's completes, in
  /// a process without a job. False when the deadline passed.
  [[nodiscard]] bool wait_without_client(time_point deadline) noexcept;
  /// What threads that wait for events of no client sleep on.
  [[nodiscard]] static doorbell& doorbell_of_no_client() noexcept;

  /// Gives a thread that waits until `until` a piece of the work to do; false when there is none
  /// that ends by itself before.
  virtual bool help(time_point /*until*/) noexcept { return false; }

  /// Whoever holds it is about to let go, because it is not ready at a deadline.
  virtual void give_up() noexcept {}

  /// Ends the event, once, and gives up the completing side's reference.
  void complete(std::exception_ptr failure) noexcept;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // Acquire-release: the last one sees what all others did before letting go.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~local_completion() = default;

 private:
  biased_lock own_guard_{biased_lock::shared{}};
  std::atomic<std::uint32_t> references_{2};
};

} // namespace farcall::am
