// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/call_meter.hpp>
#include <farcall/base/bytes.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <chrono>

namespace farcall::am {
namespace {

/// Desired time between two measured calls. If the time since the last measured call was shorter,
/// the meter doubles interval_bytes_, so that it measures more rarely. Otherwise it halves
/// interval_bytes_, so that it measures more often.
constexpr std::chrono::microseconds measuring_interval{200};

} // namespace

call_meter::call_meter(counter_segment& counters, trace::recorder* recorder, node_id peer)
    : counts_(&counters.take_caller(peer)), peer_(peer), recorder_(recorder), segment_(&counters) {}

call_meter::~call_meter() { segment_->give_back(counts_->block); }

void call_meter::begin_interval(endpoint& ends, std::uint32_t record_bytes) noexcept {
  outbox& out = ends.out;
  counts_->bytes_out = out.head;
  counts_->bytes_in = ends.in.tail;
  records_next_ = recorder_ != nullptr && recorder_->is_on();
  // Do not measure the next call while a measured call is in flight, because the meter can measure
  // only one call at a time.
  measures_next_ =
      measured_ == nullptr && (!records_next_ || out.head - measured_at_ >= interval_bytes_);
  awaits_request_ = measures_next_ || records_next_;
  if (!awaits_request_) return;
  measured_at_ = measures_next_ ? out.head : measured_at_;
  const std::uint64_t end = out.head + align_up<std::uint64_t>(record_bytes, record_alignment);
  out.limit = std::min(out.limit, end + (records_next_ ? 0 : interval_bytes_));
  if (!records_next_) return;
  reserved_at_ = out.head;
  reserved_when_ = recorder_->now();
}

void call_meter::note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept {
  if (records_next_) record_sent(slot, key, extra);
  if (slot != nullptr && measures_next_) begin_measuring(*slot);
  awaits_request_ = measures_next_;
}

void call_meter::record_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept {
  records_next_ = false;
  // Do not record requests of the active-message layer itself, because they are no calls of the
  // user.
  if (key < first_user_key) return;
  if (lane_number_ == 0) lane_number_ = recorder_->add_lane(peer_, true);
  if (slot == nullptr) {
    recorder_->record_at(reserved_when_, trace::event_kind::post, lane_number_, reserved_at_, 0,
                         key, extra);
    return;
  }
  recorder_->record_at(reserved_when_, trace::event_kind::call_begin, lane_number_, reserved_at_,
                       slot->index(), key, extra);
  slot->is_traced_ = true;
  slot->need_finish();
}

void call_meter::record_ended(pending_call& slot) noexcept {
  slot.is_traced_ = false;
  recorder_->record(trace::event_kind::call_end, lane_number_, 0, slot.index(), 0, 0);
}

void call_meter::begin_measuring(pending_call& slot) noexcept {
  const time_point now = clock::now();
  interval_bytes_ = now - measured_since_ < measuring_interval
                        ? std::min(2 * interval_bytes_, max_interval_bytes)
                        : std::max(interval_bytes_ / 2, min_interval_bytes);
  measures_next_ = false;
  measured_ = &slot;
  measured_since_ = now;
  slot.need_finish();
}

void call_meter::end_measuring() noexcept {
  measured_ = nullptr;
  const std::chrono::nanoseconds took = clock::now() - measured_since_;
  counts_->latency.add(static_cast<std::uint64_t>(took.count()));
}

} // namespace farcall::am
