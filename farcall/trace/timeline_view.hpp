#pragma once

#include <farcall/trace/timeline.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall::trace {

/// Moments of the host between which the timeline lies, for the rate of its ticks.
struct host_clock {
  std::uint64_t origin = 0; ///< ticks where the timeline begins
  double ticks_per_second = 0;
};

/// A timeline as people look at it: in nanoseconds of the host, with names, and with requests that
/// are known at both ends. The timeline outlives it.
class timeline_view {
 public:
  struct process_part {
    node_id node = no_node;
    const process_record* process = nullptr;
    std::vector<thread_intervals> threads;
  };

  timeline_view(const timeline& of, const host_clock& clock);

  [[nodiscard]] const std::vector<process_part>& processes() const noexcept { return all_; }
  /// Since the timeline's beginning.
  [[nodiscard]] std::int64_t ns(const process_part& p, std::uint64_t ticks) const;
  /// Beginning and end; of a handler not before its request was sent, which clocks may say that are
  /// off by a little.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> times_of(const process_part& p,
                                                               const interval& i) const;
  /// Which request a call, post or handler is of, where both ends are known, and when it was sent.
  [[nodiscard]] std::optional<std::pair<request_id, std::int64_t>> sent(const process_part& p,
                                                                        const interval& i) const;
  /// "main thread (4711)".
  [[nodiscard]] static std::string name_of(const process_part& p, std::uint32_t thread);
  /// Shortened where it is longer than some hundred bytes.
  [[nodiscard]] std::string name_of(const process_part& p, const interval& i) const;
  /// "call", "handler", "wait", "range", "copy".
  [[nodiscard]] static const char* category_of(event_kind kind) noexcept;

 private:
  void note_requests(const process_part& p);
  [[nodiscard]] std::string whole_name_of(const process_part& p, const interval& i) const;

  const timeline& from_;
  host_clock clock_;
  std::vector<process_part> all_;
  std::vector<std::pair<request_id, std::int64_t>> sent_; ///< by request
  std::vector<request_id> handled_;                       ///< sorted
};

/// What a node says of its clock may be anything; thirty years are as good as any.
[[nodiscard]] std::int64_t whole_ns(double ns) noexcept;

[[nodiscard]] inline bool is_sent(event_kind kind) noexcept {
  return kind == event_kind::call_begin || kind == event_kind::post;
}

} // namespace farcall::trace
