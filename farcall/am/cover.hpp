#pragma once

#include <farcall/memory/bell.hpp>

#include <atomic>
#include <cstdint>

namespace farcall::am {

/// Spares callers the bell of a worker whose lanes waiting threads serve too.
///
/// Such a worker's own thread, the service thread, is mostly asleep with the bell's flag up, so
/// that every request would ring although a waiting thread is just about to serve it. A waiting
/// thread that spins lowers the flag, and raises it again when it stops looking. That takes no
/// barrier; a request that comes in that very moment may therefore not ring. So the service thread,
/// for as long as threads cover, wakes up now and then and looks.
///
/// A thread that sleeps inside a handler holds its lanes: nobody can serve them in its place. One
/// may also sleep for an answer for which this bell rings. Only the bell wakes such a thread, so
/// nobody may cover.
class cover {
 public:
  explicit cover(bell& wakes) noexcept : wakes_(&wakes) {}
  cover(const cover&) = delete;
  cover& operator=(const cover&) = delete;

  // ---- for waiting threads ----

  /// True when threads have covered lately, so that it is worth doing at once.
  [[nodiscard]] bool is_usual() const noexcept { return watched_.load(std::memory_order_relaxed); }
  /// From now on the caller looks. False: it may not cover.
  [[nodiscard]] bool lower() noexcept;
  /// The caller stops looking. It then looks once more, and rings when there is work.
  void raise() noexcept;

  /// For as long as a thread that only the bell wakes prepares to sleep and sleeps.
  class only_bell_wakes {
   public:
    explicit only_bell_wakes(cover& c) noexcept : cover_(&c) {
      cover_->needing_bell_.fetch_add(1, std::memory_order_relaxed);
      // Before the flag is raised; partner: lower(), which lowers the flag and then looks for us.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    only_bell_wakes(const only_bell_wakes&) = delete;
    only_bell_wakes& operator=(const only_bell_wakes&) = delete;
    ~only_bell_wakes() { cover_->needing_bell_.fetch_sub(1, std::memory_order_relaxed); }

   private:
    cover* cover_;
  };

  // ---- for the service thread ----

  /// Sleeps a moment when threads cover; false when none has since the last call: then nothing but
  /// the bell's own protocol is needed.
  [[nodiscard]] bool watch() noexcept;

 private:
  bell* wakes_;
  std::atomic<std::uint32_t> lowered_{0}; ///< how often
  std::atomic<std::uint32_t> needing_bell_{0};
  std::atomic<bool> watched_{false};
  std::uint32_t lowered_before_ = 0; ///< at the last watch()
};

} // namespace farcall::am
