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
    // Acquire; partner: the release store in mark_ready(). The result is visible afterwards.
    return ready_.load(std::memory_order_acquire);
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

  /// With the guard held. Returns the continuation to run after it is released, or null.
  [[nodiscard]] continuation* mark_ready() noexcept {
    ready_.store(true, std::memory_order_release);
    continuation* then = then_;
    then_ = nullptr;
    return then;
  }

  std::atomic<client*> owner_;
  requester* lane_; ///< whose replies make it ready; null for local events
  biased_lock* guard_;
  std::atomic<bool> ready_{false};
  bool abandoned_ = false;  ///< nobody holds it any more; guarded
  bool ends_simply_ = true; ///< all that is to do at its end is to mark it ready; guarded
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
