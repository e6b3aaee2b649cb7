#pragma once

#include <farcall/am/responder.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/transport.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall::am {

/// A thread that runs handlers, and the lanes that it serves. On a target a lane stays with its
/// worker. On the host, where waiting threads serve too, whoever holds a lane serves it.
class worker {
 public:
  worker(engine& e, std::uint32_t index, doorbell& wakes, bool shared) noexcept
      : engine_(&e), index_(index), wakes_(&wakes), shared_(shared) {}
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  [[nodiscard]] bool is_part_of(const engine& e) const noexcept { return engine_ == &e; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }

  /// Adds a lane. False when there are too many. One thread at a time.
  bool add(transport& via, const endpoint& c);

  /// Serves up to a batch of requests of each lane; returns how many. With `nested`, a single
  /// request: the caller waits for something and polls again.
  unsigned turn(bool nested) noexcept;

  /// Moves bytes for all lanes; see lane_driver.
  void progress() noexcept;
  void arm() noexcept;

  /// Something for the calling thread to do now: a request in a lane that nobody else holds.
  [[nodiscard]] bool has_work() const noexcept;
  /// Replies wait for space: sleep only briefly, since nobody notifies when there is some.
  [[nodiscard]] bool is_blocked() const noexcept;

  /// Gives closed and cut lanes back. Only on the thread that runs the worker, outside handlers.
  /// Returns how many lanes are left.
  std::size_t reclaim() noexcept;

  /// The peer has failed: its lanes are cut.
  void cut(node_id peer) noexcept;

 private:
  static constexpr std::size_t most_lanes = 512;

  struct entry {
    transport* via;
    std::unique_ptr<responder> lane;
  };

  /// For as long as a thread may look at lanes that are not its own.
  class look {
   public:
    explicit look(const worker& w) noexcept : worker_(w.shared_ ? &w : nullptr) {
      // Before the loads of lanes_; partner: retire().
      if (worker_ != nullptr) worker_->readers_.fetch_add(1, std::memory_order_seq_cst);
    }
    look(const look&) = delete;
    look& operator=(const look&) = delete;
    ~look() {
      // Release; partner: the load in retire(), after which what we have looked at may go.
      if (worker_ != nullptr) worker_->readers_.fetch_sub(1, std::memory_order_release);
    }

   private:
    const worker* worker_;
  };

  /// Gives back the lanes that were taken out, once nobody can look at them.
  void retire() noexcept;

  engine* engine_;
  std::uint32_t index_;
  doorbell* wakes_;
  bool shared_;
  /// Lanes by place, null where there is none; readers go up to `places_`. Lanes are only destroyed
  /// by the worker's own thread, and not while other threads may look (shared).
  std::array<std::atomic<responder*>, most_lanes> lanes_{};
  std::atomic<std::uint32_t> places_{0};
  std::vector<entry> owned_;   ///< by place; guarded by the engine's accept_mutex_
  std::vector<entry> retired_; ///< taken out of lanes_; the same
  mutable std::atomic<std::uint32_t> readers_{0};
};

} // namespace farcall::am
