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

/// A thread that runs handlers, and the lanes that it serves. Unless told otherwise, what is here
/// is for that thread.
class worker {
 public:
  worker(engine& e, std::uint32_t index, doorbell& wakes) noexcept
      : engine_(&e), index_(index), wakes_(&wakes) {}
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  [[nodiscard]] engine& owner() const noexcept { return *engine_; }
  [[nodiscard]] bool is_part_of(const engine& e) const noexcept { return engine_ == &e; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }

  /// Adds a lane. False when there are too many. Any thread, one at a time.
  bool add(transport& via, const endpoint& c);

  /// Serves up to a batch of requests of each lane; returns how many. With `nested`, a single
  /// request: the caller waits for something and polls again.
  unsigned turn(bool nested) noexcept;
  /// Replies to a request that it is not run; false when there is none.
  bool refuse_one() noexcept;

  /// Moves bytes for all lanes; see lane_driver.
  void progress() noexcept;
  void arm() noexcept;

  /// There is a request that can be served. Any thread.
  [[nodiscard]] bool has_work() const noexcept;
  /// Handlers have returned that will reply later.
  [[nodiscard]] bool defers() const noexcept;
  /// Replies wait for space: sleep only briefly, since nobody notifies when there is some. Any
  /// thread.
  [[nodiscard]] bool is_blocked() const noexcept;

  /// Gives closed and cut lanes back, but those whose handlers wait. Outside handlers. Returns how
  /// many lanes are left.
  std::size_t reclaim() noexcept;

  /// All its lanes were closed, and nothing is left in them. For a worker that gets no more lanes.
  [[nodiscard]] bool is_closed() const noexcept;

  /// The peer has failed: its lanes are cut. Any thread, not beside add().
  void cut(node_id peer) noexcept;

 private:
  static constexpr std::size_t most_lanes = 512;

  struct entry {
    transport* via;
    std::unique_ptr<responder> lane;
  };

  /// A lane that had requests a short while ago.
  struct busy_lane {
    std::uint32_t place = 0;
    std::uint32_t idle_turns = 0;
  };

  /// Serves up to `most` requests of the lane at `place`; returns how many.
  unsigned serve(std::uint32_t place, unsigned most, const lane_driver*& moved) noexcept;
  unsigned serve_next_idle(std::uint32_t places, unsigned most, const lane_driver*& moved) noexcept;

  engine* engine_;
  std::uint32_t index_;
  doorbell* wakes_;
  /// Lanes by place, null where there is none; readers go up to `places_`. Lanes are only destroyed
  /// by the worker's own thread.
  std::array<std::atomic<responder*>, most_lanes> lanes_{};
  std::atomic<std::uint32_t> places_{0};
  static constexpr std::uint32_t most_busy = 16;

  std::array<busy_lane, most_busy> busy_{}; ///< the first busy_count_; looked at in each turn
  std::uint32_t busy_count_ = 0;
  std::uint32_t next_busy_ = 0; ///< makes room for another when busy_ is full
  std::uint32_t next_idle_ = 0; ///< place that is looked at next of all
  std::vector<entry> owned_;    ///< by place; guarded by the engine's accept_mutex_
};

} // namespace farcall::am
