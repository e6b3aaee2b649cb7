// SPDX-License-Identifier: Apache-2.0
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

/// Parameters of a lane to a device whose requests may be launches.
struct launching {
  /// Function that returns the launcher of a request, and puts the request's shape and arguments
  /// into the plan. Returns null if the request is not a launch.
  std::function<launcher(const std::byte* record, std::uint32_t bytes, launch_plan& plan)> find;
  device_api* device = nullptr;
  node_id node = 0;
  std::uint32_t stream = 0;
  std::uint32_t* blocks_done = nullptr;
};

/// The host's end of a lane to or from a device. When the user of this end commits a record to the
/// outgoing ring, the record is copied into a slot at once. Slots that the device has written are
/// copied into the ring of received records. The device reads rendezvous records directly in the
/// outgoing ring, whose memory host and device share.
class host_endpoint final : public staged_lane {
 public:
  /// `worker` is the number of the device's worker that serves the lane, or that opens it.
  host_endpoint(lane_memory& block, std::uint32_t ring_bytes, workers& all, std::uint32_t worker,
                launching launches = {});
  ~host_endpoint();

  // ---- lanes to the device

  /// Opens a lane for a user in this process. Replies ring the doorbell `wakes`.
  void open(const lane_shape& shape, doorbell& wakes);
  /// Ends the use of the lane. Records that were committed before are still sent. Records that
  /// arrive later are dropped.
  void close() noexcept;
  /// True if the lane can be opened, because it was never opened, or its last use is over. A use is
  /// over once close() was called, the device has taken all messages, all replies of the device
  /// were dropped, and all launches of the lane have ended. To reach this state, the call also
  /// sends and receives pending records.
  [[nodiscard]] bool is_free() noexcept;

  // ---- lanes from the device

  /// True from the time that the device has opened the lane until accept(). The call also receives
  /// pending messages.
  [[nodiscard]] bool has_been_opened() noexcept;
  [[nodiscard]] const lane_notice& opening() const noexcept { return opening_; }
  /// Accepts the lane that the device has opened. Requests that arrive ring the doorbell `wakes`.
  void accept(doorbell& wakes) noexcept;
  /// True if the device has closed the lane.
  [[nodiscard]] bool has_ended() noexcept;
  /// Ends the server's use of the lane. The device can open the lane again afterwards.
  void end() noexcept;

  // ---- both

  void progress() noexcept override;
  void arm() noexcept override;
  /// True if the device can take the lane's next message now, because the message was sent, and
  /// does not wait for an event.
  [[nodiscard]] bool has_unread() const noexcept;
  /// True while messages may be waiting for an event of the program. progress() finds out that the
  /// event has completed.
  [[nodiscard]] bool awaits_event() const noexcept {
    return awaits_event_.load(std::memory_order_acquire);
  }
  /// True if the lane was ever used. Any thread may call it; the result is a hint.
  [[nodiscard]] bool has_been_used() const noexcept {
    return next_down_.load(std::memory_order_relaxed) != 0 || in_.state() != receive_state::idle;
  }
  /// Describes how far both ends have sent and received, from what they have stored in the host's
  /// memory. Never waits.
  [[nodiscard]] std::string text();
  /// True while launches of the lane are in flight.
  [[nodiscard]] bool has_launches() const noexcept { return !have_ended(launches_begun()); }
  /// Returns the number of the lane's launches that have begun.
  [[nodiscard]] std::uint64_t launches_begun() const noexcept {
    return launches_begun_.load(std::memory_order_acquire);
  }
  /// True if the lane's first `launches` launches have ended.
  [[nodiscard]] bool have_ended(std::uint64_t launches) const noexcept {
    return launches_ended_.load(std::memory_order_acquire) >= launches;
  }

 private:
  struct launched {
    std::uint32_t slot = 0;        ///< of the reply
    const char* failure = nullptr; ///< reason why the launch failed, or null
    /// True if the launch can end only after all earlier launches that have this flag.
    bool is_in_order = true;
    /// True if the launch has ended and was replied to; guarded by receive_mutex_.
    bool has_ended = false;
  };

  static void committed(void* lane) noexcept;
  void begin(lane_role role, doorbell& wakes) noexcept;
  void take_credit() noexcept;
  [[nodiscard]] bool has_space() noexcept;
  void send_locked() noexcept;
  // Functions below that send or take something return false if they must be called again later,
  // for instance because there is no space.
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
  line_aligned_memory received_; ///< ring of received records

  // ---- down; guarded by send_mutex_
  std::atomic<std::uint64_t> next_down_{0};
  /// Position up to which the device has read, as far as this end knows.
  std::uint64_t down_consumed_ = 0;
  struct staged_record {
    std::uint64_t slot;  ///< position after it
    std::uint64_t start; ///< in the ring
  };
  /// Rendezvous records that were sent, and that the device may not have read yet.
  std::deque<staged_record> staged_records_;
  std::atomic<std::uint64_t> launches_begun_{0};
  std::atomic<bool> awaits_event_{false};

  // ---- up; guarded by receive_mutex_
  std::uint64_t next_up_ = 0;
  std::uint64_t up_told_ = 0;
  lane_notice opening_{};
  unsigned misses_ = 0;
  /// Launches in flight. The index is the launch's number modulo the array's size.
  std::array<launched, max_launches> launched_;
  std::atomic<std::uint64_t> launches_ended_{0};
};

} // namespace farcall::cuda
