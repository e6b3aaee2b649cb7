#pragma once

#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <cstdint>

namespace farcall::am {

/// Spares callers the doorbell of a worker whose lanes waiting threads serve too.
///
/// Such a worker's own thread, the service thread, is mostly asleep with its doorbell armed, so
/// every request would notify it although a waiting thread is just about to serve the request. A
/// waiting thread that spins disarms the doorbell, and arms it again when it stops polling. That
/// takes no barrier, so a request that comes in that very moment may fail to notify. Therefore the
/// service thread wakes up now and then and polls, for as long as threads mask its doorbell.
///
/// A thread that sleeps inside a handler holds its lanes: nobody can serve them in its place. A
/// thread may also sleep for a reply that notifies this doorbell. Only the doorbell wakes such a
/// thread, so nobody may mask it.
class doorbell_mask {
 public:
  explicit doorbell_mask(doorbell& wakes) noexcept : wakes_(&wakes) {}
  doorbell_mask(const doorbell_mask&) = delete;
  doorbell_mask& operator=(const doorbell_mask&) = delete;

  // ---- for waiting threads ----

  /// True when threads have masked it lately, so that it is worth doing at once.
  [[nodiscard]] bool is_in_use() const noexcept { return watched_.load(std::memory_order_relaxed); }
  /// From now on the caller polls in place of the worker. False: it may not.
  [[nodiscard]] bool mask() noexcept;
  /// The caller stops polling. It then polls once more, and notifies the doorbell if there is work.
  void unmask() noexcept;

  /// For as long as a thread that only the doorbell wakes prepares to sleep and sleeps.
  class only_doorbell_wakes {
   public:
    explicit only_doorbell_wakes(doorbell_mask& c) noexcept : doorbell_mask_(&c) {
      doorbell_mask_->needing_doorbell_.fetch_add(1, std::memory_order_relaxed);
      // Before the doorbell is armed; partner: mask(), which disarms it and then looks for us.
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
