// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/batch.hpp>
#include <farcall/trace/clock_alignment.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::trace {

/// Events and descriptions that one process has sent.
struct process_record {
  std::int64_t process = 0;
  double ticks_per_second = 0;
  clock_alignment clock;
  /// Names of functions by key and handle
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> functions;
  std::map<std::uint32_t, lane_description> lanes; ///< by number
  std::map<std::uint32_t, std::string> ranges;     ///< by number
  std::map<std::uint32_t, thread_events> threads;  ///< by number
};

/// Identifies a request in events of both its ends. The parts are the sender's node, the sender's
/// number of the lane, and the position of the request in the lane's ring.
struct request_id {
  node_id node = no_node;
  std::uint32_t lane = 0;
  std::uint64_t position = 0;

  auto operator<=>(const request_id&) const = default;
};

/// An interval of time on a thread: a call, handler, wait, copy or range.
struct interval {
  event_kind kind{};       ///< kind of the interval's begin event
  std::uint64_t begin = 0; ///< begin time, in ticks of its process
  std::uint64_t end = 0;
  bool is_finished = false;
  /// True in three cases: the interval overlaps another one of its thread and neither is inside the
  /// other, the interval ends on another thread, or it is a call without an end event. Such an
  /// interval cannot be drawn inside another one.
  bool crosses = false;
  std::uint32_t end_thread = 0;
  event first; ///< begin event
};

/// Intervals of a thread sorted by begin time, enclosing intervals before enclosed ones. Posts have
/// no length.
struct thread_intervals {
  std::uint32_t thread = 0;
  std::vector<interval> intervals;
};

/// Events of all processes of a job, up to a maximum.
class timeline {
 public:
  explicit timeline(std::size_t max_events) : max_events_(max_events) {}

  /// Adds a batch. Returns false if the timeline is full or a part of this batch does not fit.
  /// Descriptions may take as much memory as the events, or 1 MiB if that is more. Throws
  /// std::bad_alloc.
  bool add(batch b);

  /// Drops posts and handlers of one of farcall's own functions. `function` is its name without
  /// parameters.
  void leave_out(std::string_view function);

  /// Sets the rate of the host's clock, from which the relative rate of each process's clock
  /// follows. This relative rate is used only for a process whose clock was compared with the
  /// host's clock less than twice.
  void expect_rates(double host_ticks_per_second) noexcept;

  [[nodiscard]] const std::map<node_id, process_record>& processes() const noexcept {
    return processes_;
  }
  [[nodiscard]] std::size_t events() const noexcept { return events_; }
  /// Returns the number of events that were dropped because the timeline or the ring of their
  /// thread was full.
  [[nodiscard]] std::uint64_t missed() const noexcept;

  [[nodiscard]] std::vector<thread_intervals> intervals_of(const process_record& of) const;
  /// Returns the request that belongs to the begin event of a call or handler, or to a post. The
  /// lane of the result is 0 if the request is unknown.
  [[nodiscard]] request_id request_of(node_id node, const event& first) const;
  /// Returns the name of the function that runs for the request of an event. Returns an empty text
  /// if the node that runs the function has not sent its name.
  [[nodiscard]] std::string function_of(node_id node, const event& first) const;

 private:
  [[nodiscard]] std::size_t max_other_bytes() const noexcept;
  [[nodiscard]] bool take_space(std::size_t bytes) noexcept;

  std::map<node_id, process_record> processes_;
  std::size_t max_events_;
  std::size_t events_ = 0;
  std::size_t other_bytes_ = 0; ///< bytes that the names, lanes, threads and clock samples take
  std::uint64_t refused_ = 0;
};

} // namespace farcall::trace
