// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/pending_call.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/counters.hpp>
#include <farcall/transport/endpoint.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {
class counter_segment;
namespace trace {
class recorder;
}
} // namespace farcall

namespace farcall::am {

/// Counts the calls of a lane and measures the latency of some of them. While the job is traced,
/// the meter also records all calls. Used with the lane's guard held.
///
/// Requests are grouped in *intervals* of a number of request bytes. The ring offers space only up
/// to the end of the current interval, so that the sender of the next request calls
/// begin_interval(). A request in the middle of an interval costs only the increment of its
/// counters. The request that begins an interval costs more, because it may be measured or
/// recorded. While calls are recorded, each request is an interval of its own.
class call_meter {
 public:
  /// Makes a meter that takes a block of `counters` for its counts. `counters` outlives the meter.
  /// `recorder` is null if the job is not traced. Throws std::bad_alloc.
  call_meter(counter_segment& counters, trace::recorder* recorder, node_id peer);
  call_meter(const call_meter&) = delete;
  call_meter& operator=(const call_meter&) = delete;
  ~call_meter();

  [[nodiscard]] caller_counters& counts() const noexcept { return *counts_; }

  /// Begins an interval with the next request, whose record has `record_bytes` bytes and fits the
  /// ring. If this request is to be measured or recorded, the ring afterwards offers space only up
  /// to the end of the interval.
  void begin_interval(endpoint& ends, std::uint32_t record_bytes) noexcept;
  /// True if the next request is to be measured or recorded, so that its sender must call
  /// note_sent().
  [[nodiscard]] bool awaits_request() const noexcept { return awaits_request_; }
  /// Notes that the request was sent. `slot` is its pending call, or null for a request without a
  /// reply.
  void note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept;

  /// Returns the number that identifies the lane in trace events if the peer does not know this
  /// number yet, else 0.
  [[nodiscard]] std::uint32_t number_to_tell() const noexcept {
    return is_number_told_ ? 0 : lane_number_;
  }
  void note_number_told() noexcept { is_number_told_ = true; }

  /// True if the call is measured or recorded, so that note_ended() must be called when the call
  /// ends.
  [[nodiscard]] bool watches(const pending_call& slot) const noexcept {
    return slot.is_traced_ || &slot == measured_;
  }
  void note_ended(pending_call& slot) noexcept {
    if (&slot == measured_) end_measuring();
    if (slot.is_traced_) [[unlikely]]
      record_ended(slot);
  }

  /// Counts `replies` replies that were received in one batch.
  void count_batch(std::size_t replies, const endpoint& ends) noexcept {
    caller_counters& c = *counts_;
    const std::uint64_t in_flight = c.calls - c.replies;
    if (in_flight > c.most_in_flight) c.most_in_flight = in_flight;
    c.replies += replies;
    c.batched += replies;
    ++c.batches;
    c.bytes_in = ends.in.tail;
    c.bytes_out = ends.out.head;
  }

 private:
  static constexpr std::uint32_t min_interval_bytes = 2048;
  static constexpr std::uint32_t max_interval_bytes = 1U << 20;

  void begin_measuring(pending_call& slot) noexcept;
  void end_measuring() noexcept;
  void record_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept;
  void record_ended(pending_call& slot) noexcept;

  caller_counters* counts_; ///< in segment_
  bool awaits_request_ = false;
  bool measures_next_ = false; ///< true if the next request that has a reply is to be measured
  bool records_next_ = false;
  bool is_number_told_ = false;
  /// Number that identifies the lane in trace events; 0 before the first event.
  std::uint32_t lane_number_ = 0;
  const pending_call* measured_ = nullptr; ///< call in flight whose latency is measured, or null
  time_point measured_since_{};
  std::uint64_t measured_at_ = 0; ///< position in the request ring of the last measured request
  /// Position in the request ring of the request to be recorded next.
  std::uint64_t reserved_at_ = 0;
  /// Time, in the recorder's ticks, at which space was reserved for the request at reserved_at_.
  std::uint64_t reserved_when_ = 0;
  /// Number of request bytes after which the next call is measured. The initial value is about 64
  /// short requests. The value grows while the caller sends many requests.
  std::uint32_t interval_bytes_ = min_interval_bytes;
  node_id peer_;
  trace::recorder* recorder_; ///< never destroyed
  counter_segment* segment_;
};

} // namespace farcall::am
