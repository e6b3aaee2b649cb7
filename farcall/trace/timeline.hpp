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

/// What one process has sent of its events.
struct process_record {
  std::int64_t process = 0;
  double ticks_per_second = 0;
  clock_alignment clock;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> functions; ///< by key and handle
  std::map<std::uint32_t, lane_description> lanes;                          ///< by number
  std::map<std::uint32_t, std::string> ranges;                              ///< by number
  std::map<std::uint32_t, thread_events> threads;                           ///< by number
};

/// One end of a request, or what two of them have in common: where it was sent, as its sender
/// counts.
struct request_id {
  node_id node = no_node;
  std::uint32_t lane = 0;
  std::uint64_t position = 0;

  auto operator<=>(const request_id&) const = default;
};

/// A stretch of time on a thread, or of a call.
struct interval {
  event_kind kind{};       ///< that of its beginning
  std::uint64_t begin = 0; ///< ticks of its process
  std::uint64_t end = 0;
  bool is_finished = false;
  /// It lies beside others on its thread, or ends on another: it cannot be drawn inside them.
  bool crosses = false;
  std::uint32_t end_thread = 0;
  event first; ///< its beginning
};

/// Intervals of a thread by their beginnings, those that enclose others before these; posts are of
/// no length.
struct thread_intervals {
  std::uint32_t thread = 0;
  std::vector<interval> intervals;
};

/// What all processes of a job have recorded, up to a number of events.
class timeline {
 public:
  explicit timeline(std::size_t most_events) : most_events_(most_events) {}

  /// False when there is no room for more, also for what was added last: all that is no event may
  /// take as much memory as the events, or 1 MiB where these take less. Throws std::bad_alloc.
  bool add(batch b);

  /// Drops posts and handlers of a function, which are farcall's own. `function`: its name, without
  /// parameters.
  void leave_out(std::string_view function);

  /// For processes whose clocks have been compared once only.
  void expect_rates(double host_ticks_per_second) noexcept;

  [[nodiscard]] const std::map<node_id, process_record>& processes() const noexcept {
    return processes_;
  }
  [[nodiscard]] std::size_t events() const noexcept { return events_; }
  /// That found no room, here or in their threads' rings.
  [[nodiscard]] std::uint64_t missed() const noexcept;

  [[nodiscard]] std::vector<thread_intervals> intervals_of(const process_record& of) const;
  /// Which request the beginning of a call or handler, or a post, is of; nothing known: lane 0.
  [[nodiscard]] request_id request_of(node_id node, const event& first) const;
  /// What it runs, as the node that runs it calls it; empty where that has not said so.
  [[nodiscard]] std::string function_of(node_id node, const event& first) const;

 private:
  [[nodiscard]] std::size_t most_other_bytes() const noexcept;
  [[nodiscard]] bool take_room(std::size_t bytes) noexcept;

  std::map<node_id, process_record> processes_;
  std::size_t most_events_;
  std::size_t events_ = 0;
  std::size_t other_bytes_ = 0; ///< of names, lanes, threads and clocks
  std::uint64_t refused_ = 0;
};

} // namespace farcall::trace
