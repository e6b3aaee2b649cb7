// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/timeline.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

namespace farcall::trace {
namespace {

constexpr std::size_t no_place = std::numeric_limits<std::size_t>::max();

bool is_end(event_kind kind) noexcept {
  switch (kind) {
  case event_kind::call_end:
  case event_kind::handler_end:
  case event_kind::wait_end:
  case event_kind::sleep_end:
  case event_kind::put_end:
  case event_kind::get_end:
  case event_kind::copy_end:
  case event_kind::range_end:
    return true;
  default:
    return false;
  }
}

event_kind beginning_of(event_kind end) noexcept {
  return static_cast<event_kind>(static_cast<std::uint8_t>(end) - 1);
}

bool by_time(const event& a, const event& b) noexcept { return a.ticks < b.ticks; }

/// Calls of a process that have begun and not ended yet, by lane and slot. The whole process has
/// one map, because a call may end on another thread than the one on which it began.
class open_calls {
 public:
  struct place {
    std::size_t thread = no_place; ///< index in the list of threads
    std::size_t interval = no_place;
  };
  void begin(const event& e, place at) { open_[{e.lane(), e.slot}] = at; }
  place end(const event& e) {
    const auto at = open_.find({e.lane(), e.slot});
    if (at == open_.end()) return {};
    const place found = at->second;
    open_.erase(at);
    return found;
  }

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, place> open_;
};

/// State of a thread while its events, in the order of time, are turned into intervals. The cost of
/// an event must not depend on the number of open intervals, because a faulty node may send any
/// number of them.
struct open_thread {
  /// Indices of intervals, the innermost last. An interval that ends remains in the stack until it
  /// is the last element, so that its removal is cheap.
  using stack = std::vector<std::size_t>;

  std::vector<event> events; ///< sorted by time
  thread_intervals made;
  std::vector<bool> is_open; ///< index: interval
  stack open;
  stack others; ///< open intervals except waits
  stack calls;  ///< open calls that overlap no other call, as far as is known
  std::array<stack, static_cast<std::size_t>(last_event_kind) + 1> of_kind;
  std::map<std::pair<std::uint32_t, std::uint64_t>, stack> handlers; ///< by lane and position
  std::map<std::uint32_t, stack> ranges; ///< open ranges by the number of their name

  void begin(std::size_t which) {
    const interval& i = made.intervals[which];
    is_open.resize(made.intervals.size());
    is_open[which] = true;
    open.push_back(which);
    if (i.kind != event_kind::wait_begin) others.push_back(which);
    if (i.kind == event_kind::call_begin) calls.push_back(which);
    stack_of(i.kind, i.first).push_back(which);
  }

  /// Returns the stack of the intervals to which `e` belongs, so that an end event finds the
  /// interval that it ends. `beginning` is the kind of these intervals' begin events, and `e` a
  /// begin or end event of one of them.
  [[nodiscard]] stack& stack_of(event_kind beginning, const event& e) {
    if (beginning == event_kind::handler_begin) return handlers[{e.lane(), e.position}];
    if (beginning == event_kind::range_begin) return ranges[e.key];
    return of_kind[static_cast<std::size_t>(beginning)];
  }

  [[nodiscard]] std::size_t innermost(stack& of) const {
    while (!of.empty() && !is_open[of.back()])
      of.pop_back();
    return of.empty() ? no_place : of.back();
  }

  void finish(std::size_t which, std::uint64_t when) {
    end_waits_above(which, when);
    interval& ended = made.intervals[which];
    if (ended.is_finished) return;
    ended.end = std::max(when, ended.begin);
    ended.is_finished = true;
    if (innermost(open) != which) {
      ended.crosses = true;
      // Mark the calls that began after this one and are still open, because they overlap this
      // call. They must be drawn beside each other.
      if (ended.kind == event_kind::call_begin) {
        for (; !calls.empty() && calls.back() > which; calls.pop_back())
          made.intervals[calls.back()].crosses |= is_open[calls.back()];
      }
    }
    is_open[which] = false;
  }

  /// Ends the waits inside a call together with the call, so that they are drawn inside it. A
  /// thread that waits for a call receives the reply, which ends the call, and ends its wait only a
  /// little later. The later end event of such a wait must not end another wait.
  void end_waits_above(std::size_t call, std::uint64_t when) {
    if (made.intervals[call].kind != event_kind::call_begin || innermost(others) != call) return;
    for (std::size_t wait = innermost(open); wait != call; wait = innermost(open)) {
      made.intervals[wait].end = when;
      made.intervals[wait].is_finished = true;
      is_open[wait] = false;
    }
  }

  /// Ends an interval at time `when`, because its end event is missing.
  void lose(std::size_t which, std::uint64_t when) {
    is_open[which] = false;
    interval& lost = made.intervals[which];
    lost.end = when;
    lost.crosses = true;
  }

  /// Returns the innermost interval that this event ends.
  [[nodiscard]] std::size_t beginning_of_end(const event& e) {
    const event_kind beginning = beginning_of(e.kind());
    stack& same = stack_of(beginning, e);
    if (beginning != event_kind::wait_begin) return innermost(same);
    if (same.empty()) return no_place;
    const std::size_t last = same.back();
    same.pop_back();
    return last;
  }
};

void end_call(std::vector<open_thread>& threads, std::size_t on, open_calls::place call,
              std::uint64_t when) {
  if (call.thread == no_place) return;
  open_thread& began = threads[call.thread];
  began.finish(call.interval, when);
  if (call.thread == on) return;
  interval& ended = began.made.intervals[call.interval];
  ended.crosses = true;
  ended.end_thread = threads[on].made.thread;
}

/// Ends a call without an end event at time `when`, because another call uses its slot.
void lose_call(std::vector<open_thread>& threads, open_calls::place call, std::uint64_t when) {
  if (call.thread == no_place) return;
  threads[call.thread].lose(call.interval, when);
}

} // namespace

bool timeline::add(batch b) {
  process_record& of = processes_[b.node];
  of.process = b.process;
  if (b.ticks_per_second > 0) of.ticks_per_second = b.ticks_per_second;
  // Limit the memory that descriptions take to that of the events, because a faulty node may send
  // any number of descriptions.
  if (take_space(b.clocks.size() * sizeof(clock_sample))) of.clock.add(b.clocks);
  for (function_name& f : b.functions) {
    if (take_space(sizeof(function_name) + f.name.size()))
      of.functions[{f.key, f.handle}] = std::move(f.name);
  }
  for (const lane_description& l : b.events.lanes) {
    if (take_space(sizeof l)) of.lanes[l.number] = l;
  }
  for (std::size_t i = 0; i < b.events.ranges.size(); ++i) {
    std::string& name = b.events.ranges[i];
    if (take_space(sizeof(std::string) + name.size()))
      of.ranges[b.events.first_range + static_cast<std::uint32_t>(i)] = std::move(name);
  }
  for (thread_events& t : b.events.threads) {
    if (!of.threads.contains(t.thread) && !take_space(sizeof t + t.name.size())) {
      refused_ += t.events.size();
      continue;
    }
    thread_events& known = of.threads[t.thread];
    const std::size_t space = max_events_ - events_;
    if (t.events.size() > space) {
      refused_ += t.events.size() - space;
      t.events.resize(space);
    }
    events_ += t.events.size();
    if (known.events.empty()) {
      known = std::move(t);
    } else {
      known.events.insert(known.events.end(), t.events.begin(), t.events.end());
      known.missed = t.missed;
      known.name = std::move(t.name);
    }
  }
  return events_ < max_events_ && other_bytes_ < max_other_bytes();
}

std::size_t timeline::max_other_bytes() const noexcept {
  constexpr std::size_t least = std::size_t{1} << 20;
  return std::max(max_events_ * sizeof(event), least);
}

bool timeline::take_space(std::size_t bytes) noexcept {
  // Memory that a std::map takes for each element in addition to the element itself.
  constexpr std::size_t with_each = 64;
  const std::size_t left = max_other_bytes() - other_bytes_;
  const bool has_space = bytes + with_each <= left;
  other_bytes_ += has_space ? bytes + with_each : left;
  return has_space;
}

void timeline::leave_out(std::string_view function) {
  using key = std::pair<std::uint32_t, std::uint32_t>;
  std::map<node_id, std::set<key>> left_out;
  for (const auto& [node, process] : processes_) {
    for (const auto& [number, name] : process.functions) {
      if (std::string_view(name).substr(0, name.find('(')) == function)
        left_out[node].insert(number);
    }
  }
  for (auto& [node, process] : processes_) {
    const auto is_left_out = [&, own = node, &lanes = process.lanes](const event& e) {
      node_id runs_on = own;
      if (e.kind() == event_kind::post) {
        const auto lane = lanes.find(e.lane());
        if (lane == lanes.end()) return false;
        runs_on = lane->second.peer;
      } else if (e.kind() != event_kind::handler_begin && e.kind() != event_kind::handler_end) {
        return false;
      }
      const auto of_node = left_out.find(runs_on);
      return of_node != left_out.end() && of_node->second.contains({e.key, e.handle});
    };
    for (auto& [number, thread] : process.threads)
      std::erase_if(thread.events, is_left_out);
  }
}

void timeline::expect_rates(double host_ticks_per_second) noexcept {
  for (auto& [node, process] : processes_) {
    if (process.ticks_per_second > 0)
      process.clock.expect_rate(host_ticks_per_second / process.ticks_per_second);
  }
}

std::uint64_t timeline::missed() const noexcept {
  std::uint64_t sum = refused_;
  for (const auto& [node, process] : processes_) {
    for (const auto& [number, thread] : process.threads)
      sum += thread.missed;
  }
  return sum;
}

std::vector<thread_intervals> timeline::intervals_of(const process_record& of) const {
  std::vector<open_thread> threads;
  std::uint64_t last = 0;
  // Sort all events of the process by time, because a call may end on another thread than it began.
  std::vector<std::tuple<std::uint64_t, std::size_t, std::size_t>> order;
  for (const auto& [number, recorded] : of.threads) {
    open_thread& t = threads.emplace_back();
    t.made.thread = number;
    t.events = recorded.events;
    // Sort the events by time, because the begin of a wait is recorded late, although with the
    // right time.
    std::stable_sort(t.events.begin(), t.events.end(), by_time);
    for (std::size_t i = 0; i < t.events.size(); ++i)
      order.emplace_back(t.events[i].ticks, threads.size() - 1, i);
  }
  std::sort(order.begin(), order.end());
  open_calls calls;
  for (const auto& [when, which, index] : order) {
    open_thread& t = threads[which];
    const event& e = t.events[index];
    last = when;
    if (e.kind() == event_kind::call_end) {
      end_call(threads, which, calls.end(e), when);
    } else if (is_end(e.kind())) {
      if (const std::size_t began = t.beginning_of_end(e); began != no_place) t.finish(began, when);
    } else {
      const std::size_t place = t.made.intervals.size();
      t.made.intervals.push_back({e.kind(), when, when, false, false, t.made.thread, e});
      if (e.kind() == event_kind::post) continue;
      t.begin(place);
      if (e.kind() != event_kind::call_begin) continue;
      lose_call(threads, calls.end(e), when);
      calls.begin(e, {which, place});
    }
  }
  std::vector<thread_intervals> made;
  for (open_thread& t : threads) {
    // Let an interval without an end event last until the last event of the process.
    for (const std::size_t open : t.open) {
      if (!t.is_open[open]) continue;
      interval& i = t.made.intervals[open];
      i.end = last;
      i.crosses = i.crosses || i.kind == event_kind::call_begin;
    }
    made.push_back(std::move(t.made));
  }
  return made;
}

request_id timeline::request_of(node_id node, const event& first) const {
  const auto process = processes_.find(node);
  if (process == processes_.end()) return {};
  const auto lane = process->second.lanes.find(first.lane());
  if (lane == process->second.lanes.end()) return {};
  if (lane->second.is_caller) return {node, lane->second.number, first.position};
  return {lane->second.peer, lane->second.peers_number, first.position};
}

std::string timeline::function_of(node_id node, const event& first) const {
  const auto process = processes_.find(node);
  if (process == processes_.end()) return {};
  node_id runs_on = node;
  if (first.kind() != event_kind::handler_begin) {
    const auto lane = process->second.lanes.find(first.lane());
    if (lane == process->second.lanes.end()) return {};
    runs_on = lane->second.peer;
  }
  const auto runs = processes_.find(runs_on);
  if (runs == processes_.end()) return {};
  const auto name = runs->second.functions.find({first.key, first.handle});
  return name == runs->second.functions.end() ? std::string() : name->second;
}

} // namespace farcall::trace
