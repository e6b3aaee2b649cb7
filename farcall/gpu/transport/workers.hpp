// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/gpu/transport/device_api.hpp>
#include <farcall/gpu/transport/worker_control.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::cuda {

/// Controls a device's workers for the host. Starts workers when there are messages for them, makes
/// them leave when the device must be idle, and notices when the device has failed.
///
/// While a worker runs, a monitor thread checks the device every millisecond, and more often for a
/// while after expect_soon(). While no worker runs, the monitor sleeps.
class workers {
 public:
  struct look_after {
    /// Returns true if there are messages that the worker has not taken.
    std::function<bool(std::uint32_t worker)> has_unread;
    std::function<bool()> is_in_use; ///< returns true if kernels run, or if lanes wait for events
    std::function<void()> receive;   ///< receives messages on behalf of threads that sleep
  };

  /// `setups` has one entry for each worker. `device` and `controls` must outlive this object.
  workers(device_api& device, std::vector<worker_setup> setups);
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers();

  /// Starts each worker once and waits until it leaves. Faults of the device become visible here,
  /// and CUDA's additional work at a first start is done. Throws error with the device's text.
  void try_out();

  /// Starts the monitor thread. Called once, before the first message.
  void begin(look_after calls);

  /// Called after the caller has written messages to `worker`. Makes sure that the worker finds
  /// them, and starts the worker if it does not run. If the worker runs, the call costs a fence and
  /// a load.
  void wake(std::uint32_t worker) noexcept {
    // Sequentially consistent, paired with the fence of a worker that leaves. Either the worker
    // sees the message, or this thread sees that the worker leaves.
    full_fence();
    if (load_acquire(&setups_[worker].control->state) !=
        static_cast<std::uint32_t>(worker_state::running)) [[unlikely]]
      wake_slow(worker);
  }

  /// Makes `worker` poll a lane. `lane` is the lane's number among the worker's lanes.
  void add_lane(std::uint32_t worker, std::uint32_t lane) noexcept;
  /// Makes the worker stop polling a lane. All messages of the lane must have been taken.
  void remove_lane(std::uint32_t worker, std::uint32_t lane) noexcept;

  /// Makes the monitor poll more often for a while. Called before a thread sleeps until a message
  /// arrives, and while a launch or an event is awaited.
  void expect_soon() noexcept;
  /// Checks the device if the last check was some time ago. Called by threads that wait for a
  /// reply.
  void look(time_point now) noexcept;

  /// Waits until no worker runs or the device has failed, and prevents starts of workers until
  /// resume(). If two threads call it, the second waits until the first has resumed the workers. If
  /// workers still run at `deadline`, for instance because a handler does not end, resumes and
  /// returns false. Throws error with the device's text.
  [[nodiscard]] bool quiesce(time_point deadline);
  void resume() noexcept;

  /// Sets the idle timeout of workers that are started from now on.
  void set_idle(std::chrono::nanoseconds idle) noexcept;

  /// Marks the device as failed.
  void fail(const std::string& why) noexcept;
  /// Marks the device as failed, and tells its workers to end. Kernels that still run on the device
  /// are not waited for.
  void give_up(const std::string& why) noexcept;
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_acquire);
  }
  /// Returns the reason of the failure; empty if there was none.
  [[nodiscard]] std::string failure() const;
  /// Descriptor that becomes readable when the device has failed.
  [[nodiscard]] int failure_fd() const noexcept { return failure_event_.get(); }

  /// Describes the state of a worker, as the worker and the host have stored it. Never waits.
  [[nodiscard]] std::string text_of(std::uint32_t worker) const;

  /// Returns how often workers were started.
  [[nodiscard]] std::uint64_t starts() const noexcept { return starts_.load(); }

  /// Ends workers and kernels. If some still run at `deadline`, abandons the device and returns
  /// false.
  bool stop(time_point deadline) noexcept;

 private:
  void wake_slow(std::uint32_t worker) noexcept;
  void start_locked(std::uint32_t worker) noexcept;
  [[nodiscard]] worker_state state_of(std::uint32_t worker) const noexcept;
  [[nodiscard]] bool all_have_left() const noexcept;
  /// True if all workers have left, and neither kernels nor events use the device.
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] bool has_unread() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds interval() const noexcept;
  void command(worker_command what) noexcept;
  /// True if the device itself reports a failure. After this, its workers do not report that they
  /// have left.
  [[nodiscard]] bool has_faulted() const noexcept;
  void look_after_workers();
  void check() noexcept;

  device_api* device_;
  std::vector<worker_setup> setups_;
  look_after calls_;
  unique_fd failure_event_;
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> is_given_up_{false};
  std::atomic<std::uint64_t> starts_{0};
  std::atomic<time_point::rep> expected_since_{0};
  std::atomic<time_point::rep> next_poll_{0};

  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::condition_variable resumed_;
  std::string failure_;
  bool has_notice_ = false; ///< true if the monitor thread must wake up and check the device now
  bool is_quiet_ = false;   ///< between quiesce() and resume()
  bool is_stopping_ = false;
  bool is_stopped_ = false;
  library_thread monitor_;
};

} // namespace farcall::cuda
