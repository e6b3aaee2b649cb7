// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/timeline.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall::trace {

/// Clock of the host: the origin of the timeline, and the rate of the host's ticks.
struct host_clock {
  std::uint64_t origin = 0; ///< ticks at the timeline's origin
  double ticks_per_second = 0;
};

/// A timeline for display. Times are converted to nanoseconds of the host, functions have names,
/// and requests are known at both ends. The timeline outlives the view.
class timeline_view {
 public:
  struct process_part {
    node_id node = no_node;
    const process_record* process = nullptr;
    std::vector<thread_intervals> threads;
  };

  timeline_view(const timeline& of, const host_clock& clock);

  [[nodiscard]] const std::vector<process_part>& processes() const noexcept { return all_; }
  /// Returns the time since the timeline's origin, in nanoseconds.
  [[nodiscard]] std::int64_t ns(const process_part& p, std::uint64_t ticks) const;
  /// Returns begin and end of an interval. The begin of a handler is never before the sending of
  /// its request, even if inexact clocks say so.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> times_of(const process_part& p,
                                                               const interval& i) const;
  /// Returns the request of a call, post or handler, and the time of its sending. Returns an empty
  /// optional if one end of the request is unknown.
  [[nodiscard]] std::optional<std::pair<request_id, std::int64_t>> sent(const process_part& p,
                                                                        const interval& i) const;
  /// Returns the name of a thread, such as "main thread (4711)".
  [[nodiscard]] static std::string name_of(const process_part& p, std::uint32_t thread);
  /// Returns the name of an interval, shortened to some hundred bytes.
  [[nodiscard]] std::string name_of(const process_part& p, const interval& i) const;
  /// Returns the kind of an interval: "call", "handler", "wait", "range" or "copy".
  [[nodiscard]] static const char* category_of(event_kind kind) noexcept;

 private:
  void note_requests(const process_part& p);
  [[nodiscard]] std::string whole_name_of(const process_part& p, const interval& i) const;

  const timeline& from_;
  host_clock clock_;
  std::vector<process_part> all_;
  std::vector<std::pair<request_id, std::int64_t>> sent_; ///< sorted by request
  std::vector<request_id> handled_;                       ///< sorted
};

/// Rounds a time, and limits it to about thirty years, because a node's clock data may have any
/// value.
[[nodiscard]] std::int64_t whole_ns(double ns) noexcept;

[[nodiscard]] inline bool is_sent(event_kind kind) noexcept {
  return kind == event_kind::call_begin || kind == event_kind::post;
}

} // namespace farcall::trace
