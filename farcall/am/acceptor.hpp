// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/doorbell_layout.hpp>
#include <farcall/am/worker.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/endpoint.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::am {

class engine;
struct engine_options;

/// Accepts the lanes that peers open. The acceptor gives each lane to the worker that its opener
/// named, or to a new worker with its own thread, or refuses the lane. The acceptor's mutex guards
/// the assignment of lanes to workers.
class acceptor {
 public:
  acceptor(engine& owner, const engine_options& options, const doorbell_layout& doorbells) noexcept
      : owner_(owner), options_(options), doorbells_(doorbells) {}
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;
  /// Call join() first.
  ~acceptor() = default;

  /// Adds a transport through which peers may open lanes. Call before the first accept(). `t`
  /// outlives the acceptor.
  void listen(transport& t);
  [[nodiscard]] std::vector<transport*> transports() const;

  // ---- arrivals; any thread ----

  /// True if peers have opened lanes that accept() has not accepted yet.
  [[nodiscard]] bool has_arrivals() const noexcept {
    for (const auto& l : listeners_) {
      // Acquire, paired with two releases: the additions with which peers count the lanes that they
      // have opened, and the store of `seen` in accept(). If both numbers are equal here, accept()
      // has taken all arrived lanes.
      if (l->arrivals->load(std::memory_order_acquire) != l->seen.load(std::memory_order_acquire))
        return true;
    }
    return false;
  }
  void accept() noexcept;
  /// Accepts lanes until the engine stops. Runs on a dedicated thread, because all workers may be
  /// busy with handlers.
  void run();

  // ---- lane drivers ----

  /// Moves the bytes of lanes whose transport has a lane driver. Called by waiting threads.
  void poll_drivers() const noexcept {
    for (lane_driver* const driver : drivers_)
      driver->progress();
  }
  /// Polls the lane drivers, then arms them by lane_driver::arm(), before the calling thread
  /// sleeps.
  void arm_drivers() const noexcept {
    poll_drivers();
    for (lane_driver* const driver : drivers_)
      driver->arm();
  }

  // ---- lanes of workers ----

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// Reclaims the closed lanes of `w`. Returns how many lanes `w` still has. Call on the worker's
  /// thread.
  std::size_t reclaim(worker& w) noexcept;
  /// Gives the lanes that `w` has taken over back to their home workers, as described at
  /// worker::give_back().
  void give_back(worker& w, bool all) noexcept;
  /// Cuts the lanes of failed nodes, and makes the transports forget these nodes.
  void cut(const std::vector<node_id>& failed) noexcept;

  /// Joins the threads of single-lane workers, except the calling thread. Call after the engine has
  /// stopped.
  void join() noexcept;
  /// Destroys the single-lane workers. Call after join(), because their threads use them until
  /// then.
  void drop_lane_workers() noexcept { lane_workers_.clear(); }
  /// Detaches the threads of single-lane workers. After this call the acceptor must never be
  /// destroyed, because the threads still use it.
  void detach() noexcept;

 private:
  struct listener {
    transport* via;
    const std::atomic<std::uint32_t>* arrivals;
    std::atomic<std::uint32_t> seen;
  };

  /// A worker that serves a single lane, and the worker's thread.
  struct lane_worker {
    std::unique_ptr<worker> serving;
    library_thread thread;
    std::atomic<bool> done{false};
  };

  /// Assigns a newly opened lane to its worker. Throws error, std::bad_alloc and std::system_error.
  void adopt(transport& via, const endpoint& c);
  void start_lane_worker(transport& via, const endpoint& c);
  void refuse(transport& via, endpoint& c, std::string_view why) noexcept;
  /// Closes each refused lane whose opener has closed its end, too, or has failed.
  void close_refused() noexcept;

  engine& owner_;
  const engine_options& options_;
  const doorbell_layout& doorbells_;
  std::vector<std::unique_ptr<listener>> listeners_;
  /// Lane drivers of all transports; usually empty, because only some transports have a lane
  /// driver.
  std::vector<lane_driver*> drivers_;
  std::mutex mutex_;
  std::list<lane_worker> lane_workers_;                  ///< guarded by mutex_
  std::vector<std::pair<transport*, endpoint>> refused_; ///< guarded by mutex_
};

} // namespace farcall::am
