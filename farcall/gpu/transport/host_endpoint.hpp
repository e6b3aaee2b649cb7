#pragma once

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/gpu/transport/device_api.hpp>
#include <farcall/gpu/transport/slot.hpp>
#include <farcall/transport/staged_lane.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace farcall::cuda {

class workers;

/// What a lane needs for requests that are launches.
struct launching {
  /// The launcher of a request, whose shape and arguments go into the plan; null for others.
  std::function<launcher(const std::byte* record, std::uint32_t bytes, launch_plan& plan)> find;
  device_api* device = nullptr;
  node_id node = 0;
  std::uint32_t stream = 0;
  std::uint32_t* blocks_done = nullptr;
};

/// The host's end of a lane to or from a device: what its user commits goes from the ring into
/// slots at once, and slots that the device has written become records of the other ring. Longer
/// records the device reads in the ring itself, which lies in memory that both share.
class host_endpoint final : public staged_lane {
 public:
  /// `worker` is the device's that serves the lane, if one does.
  host_endpoint(lane_memory& block, std::uint32_t ring_bytes, workers& all, std::uint32_t worker,
                launching launches = {});
  ~host_endpoint();

  // ---- lanes to the device

  /// Begins a lane for a user here, whose doorbell replies ring.
  void open(const lane_shape& shape, doorbell& wakes);
  /// The user is done: what was committed is still sent, what comes is dropped.
  void close() noexcept;
  /// After close(): the device has taken everything, and all its replies were dropped. Moves bytes.
  [[nodiscard]] bool is_free() noexcept;

  // ---- lanes from the device

  /// True once for each lane that the device opens; moves bytes. One thread at a time.
  [[nodiscard]] bool has_been_opened() noexcept;
  [[nodiscard]] const lane_notice& opening() const noexcept { return opening_; }
  /// `wakes` is the doorbell of whoever serves it.
  void accept(doorbell& wakes) noexcept;
  /// The device has closed it.
  [[nodiscard]] bool has_ended() noexcept;
  /// The server is done. The lane can be opened again.
  void end() noexcept;

  // ---- both

  void progress() noexcept override;
  void arm() noexcept override;
  /// There is something for the device to take: sent, and not waiting for an event.
  [[nodiscard]] bool has_unread() const noexcept;
  /// An event of the program's may still have to complete before the device takes more. Whoever
  /// calls progress() then sees that it does.
  [[nodiscard]] bool awaits_event() const noexcept {
    return awaits_event_.load(std::memory_order_acquire);
  }
  /// Any thread; a hint.
  [[nodiscard]] bool has_been_used() const noexcept {
    return next_down_.load(std::memory_order_relaxed) != 0 || in_.state() != receive_state::idle;
  }
  /// How far both ends are, by what they have written into the host's memory. Waits for nothing.
  [[nodiscard]] std::string text();
  /// Launches are under way.
  [[nodiscard]] bool has_launches() const noexcept { return !have_ended(launches_begun()); }
  /// How many launches have begun.
  [[nodiscard]] std::uint64_t launches_begun() const noexcept {
    return launches_begun_.load(std::memory_order_acquire);
  }
  /// The first `launches` of them have ended.
  [[nodiscard]] bool have_ended(std::uint64_t launches) const noexcept {
    return launches_ended_.load(std::memory_order_acquire) >= launches;
  }

 private:
  struct launched {
    std::uint32_t slot = 0;        ///< of the reply
    const char* failure = nullptr; ///< why it was not possible
    bool is_in_order = true;       ///< ends behind others that are
    bool has_ended = false;        ///< and was replied to; receive_mutex_
  };

  static void committed(void* lane) noexcept;
  void begin(lane_role role, doorbell& wakes) noexcept;
  void take_credit() noexcept;
  [[nodiscard]] bool has_space() noexcept;
  void send_locked() noexcept;
  // These return false when it has to wait.
  [[nodiscard]] bool send(const record_view& record) noexcept;
  [[nodiscard]] bool send_notices(record_kind kind, const lane_shape& shape) noexcept;
  [[nodiscard]] bool launch(launcher run, launch_plan& plan, std::uint32_t slot) noexcept;
  [[nodiscard]] bool take(const std::uint32_t* message) noexcept;
  [[nodiscard]] bool put_into_ring(const std::uint32_t* message) noexcept;
  [[nodiscard]] bool is_written(std::uint64_t position) const noexcept;
  [[nodiscard]] bool has_all_consumed() const noexcept;
  void put_gate(launch_plan& plan) noexcept;
  void look_at_gates_locked() noexcept;
  void say_goodbye() noexcept;
  void put(const std::uint32_t* payload) noexcept;
  void end_launches() noexcept;
  [[nodiscard]] bool reply_to(const launched& l) noexcept;
  void receive_locked() noexcept;
  [[nodiscard]] bool is_sane(const std::uint32_t* message) const noexcept;

  lane_memory* block_;
  std::uint32_t size_;
  workers* all_;
  std::uint32_t worker_;
  launching launching_;
  line_aligned_memory received_; ///< the ring of what has come

  // ---- down; send_mutex_
  std::atomic<std::uint64_t> next_down_{0};
  std::uint64_t down_consumed_ = 0; ///< as far as we know
  struct long_record {
    std::uint64_t slot;  ///< position after it
    std::uint64_t start; ///< in the ring
  };
  std::deque<long_record> long_records_; ///< sent, and perhaps not yet read
  std::atomic<std::uint64_t> launches_begun_{0};
  std::atomic<bool> awaits_event_{false};

  // ---- up; receive_mutex_
  std::uint64_t next_up_ = 0;
  std::uint64_t up_told_ = 0;
  lane_notice opening_{};
  unsigned misses_ = 0;
  std::array<launched, most_launches> launched_; ///< those under way, by number
  std::atomic<std::uint64_t> launches_ended_{0};
};

} // namespace farcall::cuda
