#pragma once

#include <farcall/base/clock.hpp>
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
#include <thread>
#include <vector>

namespace farcall::cuda {

/// The host's half of a worker's life: starts workers when there is something for them, sees that
/// they leave when they must, and notices when the device has failed.
///
/// While a worker runs, a thread looks after it: every millisecond, and more often for a while when
/// a user of a lane has gone to sleep. With no worker running the thread sleeps.
class workers {
 public:
  struct look_after {
    std::function<bool(std::uint32_t worker)> has_unread; ///< something waits for that worker
    std::function<bool()> is_in_use; ///< by kernels, or by events that are awaited
    std::function<void()> receive;   ///< moves what has come for sleepers
  };

  /// `setups` by worker; `device` and `controls` outlive this object.
  workers(device_api& device, std::vector<worker_setup> setups);
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers();

  /// Starts each worker once and sees it leave. Whatever is wrong with the device shows here, and
  /// what CUDA does only at a first start is over. Throws error with the device's text.
  void try_out();

  /// Once, before the first message.
  void begin(look_after calls);

  /// Behind messages to `worker` that were written: sees to it that it will find them. Costs a
  /// fence and a load while it runs.
  void wake(std::uint32_t worker) noexcept {
    // Sequentially consistent; partner: the fence of a worker that leaves.
    full_fence();
    if (load_acquire(&setups_[worker].control->state) !=
        static_cast<std::uint32_t>(worker_state::running)) [[unlikely]]
      wake_slow(worker);
  }

  /// From now on `worker` looks at that lane of its own.
  void add_lane(std::uint32_t worker, std::uint32_t lane) noexcept;
  /// It no longer does; all has been taken that was sent there.
  void remove_lane(std::uint32_t worker, std::uint32_t lane) noexcept;

  /// Somebody goes to sleep until a message comes, which is then taken in soon.
  void expect_soon() noexcept;
  /// A thread that waits for a reply calls this now and then.
  void look(time_point now) noexcept;

  /// Returns when no worker runs, and none starts before resume(). One caller at a time is quiet,
  /// others wait. False when that was not so until `deadline`, as when a handler does not end; then
  /// they go on. Throws error with the device's text.
  [[nodiscard]] bool quiesce(time_point deadline);
  void resume() noexcept;

  /// How long a worker without messages stays; from its next start on.
  void set_idle(std::chrono::nanoseconds idle) noexcept;

  /// The device takes no more part.
  void fail(const std::string& why) noexcept;
  /// The same, and what runs there is not waited for.
  void give_up(const std::string& why) noexcept;
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_acquire);
  }
  /// Empty while it is well.
  [[nodiscard]] std::string failure() const;
  /// Readable once the device has failed.
  [[nodiscard]] int failure_fd() const noexcept { return failure_event_.get(); }

  /// What a worker is at, by what it and the host have written. Waits for nothing.
  [[nodiscard]] std::string text_of(std::uint32_t worker) const;

  /// How often a worker was started.
  [[nodiscard]] std::uint64_t starts() const noexcept { return starts_.load(); }

  /// Ends everything: workers and kernels end until `deadline`, or the device is abandoned. False
  /// then.
  bool stop(time_point deadline) noexcept;

 private:
  void wake_slow(std::uint32_t worker) noexcept;
  void start_locked(std::uint32_t worker) noexcept;
  [[nodiscard]] worker_state state_of(std::uint32_t worker) const noexcept;
  [[nodiscard]] bool all_have_left() const noexcept;
  /// The same, and the device is not in use otherwise.
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] bool has_unread() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds interval() const noexcept;
  void command(worker_command what) noexcept;
  /// No worker runs any more, and none will say so.
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
  std::atomic<time_point::rep> next_look_{0};

  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::condition_variable resumed_;
  std::string failure_;
  bool is_news_ = false;  ///< the monitor is to look now
  bool is_quiet_ = false; ///< between quiesce() and resume()
  bool is_stopping_ = false;
  bool is_stopped_ = false;
  std::thread monitor_;
};

} // namespace farcall::cuda
