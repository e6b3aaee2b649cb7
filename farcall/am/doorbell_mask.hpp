#pragma once

#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <cstdint>

namespace farcall::am {

/// Spares callers the doorbell of a worker whose lanes waiting threads serve too.
///
/// Such a worker's own thread, the service thread, is mostly asleep with the doorbell's flag up, so
/// that every request would ring although a waiting thread is just about to serve it. A waiting
/// thread that spins lowers the flag, and raises it again when it stops looking. That takes no
/// barrier; a request that comes in that very moment may therefore not ring. So the service thread,
/// for as long as threads mask it, wakes up now and then and looks.
///
/// A thread that sleeps inside a handler holds its lanes: nobody can serve them in its place. One
/// may also sleep for a reply for which this doorbell rings. Only the doorbell wakes such a
/// thread, so nobody may mask it.
class doorbell_mask {
 public:
  explicit doorbell_mask(doorbell& wakes) noexcept : wakes_(&wakes) {}
  doorbell_mask(const doorbell_mask&) = delete;
  doorbell_mask& operator=(const doorbell_mask&) = delete;

  // ---- for waiting threads ----

  /// True when threads have covered lately, so that it is worth doing at once.
  [[nodiscard]] bool is_in_use() const noexcept { return watched_.load(std::memory_order_relaxed); }
  /// From now on the caller looks. False: it may not.
  [[nodiscard]] bool mask() noexcept;
  /// The caller stops looking. It then looks once more, and rings when there is work.
  void unmask() noexcept;

  /// For as long as a thread that only the doorbell wakes prepares to sleep and sleeps.
  class only_doorbell_wakes {
   public:
    explicit only_doorbell_wakes(doorbell_mask& c) noexcept : doorbell_mask_(&c) {
      doorbell_mask_->needing_doorbell_.fetch_add(1, std::memory_order_relaxed);
      // Before the flag is raised; partner: mask(), which lowers the flag and then looks for us.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    only_doorbell_wakes(const only_doorbell_wakes&) = delete;
    only_doorbell_wakes& operator=(const only_doorbell_wakes&) = delete;
    ~only_doorbell_wakes() {
      doorbell_mask_->needing_doorbell_.fetch_sub(1, std::memory_order_relaxed);
    }

   private:
    doorbell_mask* doorbell_mask_;
  };

  // ---- for the service thread ----

  /// Sleeps a moment when threads mask the doorbell; false when none has since the last call: then
  /// nothing but the doorbell's own protocol is needed.
  [[nodiscard]] bool nap() noexcept;

 private:
  doorbell* wakes_;
  std::atomic<std::uint32_t> masked_{0}; ///< how often
  std::atomic<std::uint32_t> needing_doorbell_{0};
  std::atomic<bool> watched_{false};
  std::uint32_t masked_before_ = 0; ///< at the last nap()
};

} // namespace farcall::am
