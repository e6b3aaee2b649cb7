#include <farcall/trace/timeline.hpp>

#include <algorithm>
#include <limits>
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

/// Calls of a process, which may end on other threads than they have begun on: by lane and slot.
class open_calls {
 public:
  struct place {
    std::size_t thread = no_place; ///< in the list of threads
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

/// Of a thread, while its events are gone through in the order of time.
struct open_thread {
  std::vector<event> events; ///< by time
  thread_intervals made;
  std::vector<std::size_t> open; ///< intervals, the innermost last

  void finish(std::size_t which, std::uint64_t when) {
    end_waits_above(which, when);
    interval& ended = made.intervals[which];
    ended.end = std::max(when, ended.begin);
    ended.is_finished = true;
    const auto at = std::find(open.begin(), open.end(), which);
    if (at + 1 != open.end()) {
      ended.crosses = true;
      // Calls that are under way together belong side by side, all of them.
      for (auto above = at + 1; ended.kind == event_kind::call_begin && above != open.end();
           ++above) {
        interval& other = made.intervals[*above];
        if (other.kind == event_kind::call_begin) other.crosses = true;
      }
    }
    open.erase(at);
  }

  /// Who waits for a call's answer goes on a little after it was taken in.
  void end_waits_above(std::size_t call, std::uint64_t when) {
    if (made.intervals[call].kind != event_kind::call_begin) return;
    const auto is_wait = [this](std::size_t i) {
      return made.intervals[i].kind == event_kind::wait_begin;
    };
    const auto above = std::find(open.begin(), open.end(), call) + 1;
    if (!std::all_of(above, open.end(), is_wait)) return;
    for (auto wait = above; wait != open.end(); ++wait) {
      made.intervals[*wait].end = when;
      made.intervals[*wait].is_finished = true;
    }
    open.erase(above, open.end());
  }

  /// The innermost that ends with it.
  [[nodiscard]] std::size_t beginning_of_end(const event& e) const {
    const auto is_its = [&](std::size_t which) {
      const interval& i = made.intervals[which];
      if (i.kind != beginning_of(e.kind())) return false;
      if (i.kind != event_kind::handler_begin) return true;
      return i.first.lane() == e.lane() && i.first.position == e.position;
    };
    const auto at = std::find_if(open.rbegin(), open.rend(), is_its);
    return at == open.rend() ? no_place : *at;
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

/// Its slot is used again: its end was missed.
void lose_call(std::vector<open_thread>& threads, open_calls::place call, std::uint64_t when) {
  if (call.thread == no_place) return;
  open_thread& began = threads[call.thread];
  std::erase(began.open, call.interval);
  interval& lost = began.made.intervals[call.interval];
  lost.end = when;
  lost.crosses = true;
}

} // namespace

bool timeline::add(batch b) {
  process_record& of = processes_[b.node];
  of.process = b.process;
  if (b.ticks_per_second > 0) of.ticks_per_second = b.ticks_per_second;
  of.clock.add(b.clocks);
  for (function_name& f : b.functions)
    of.functions[{f.key, f.handle}] = std::move(f.name);
  for (const lane_description& l : b.events.lanes)
    of.lanes[l.number] = l;
  for (std::size_t i = 0; i < b.events.ranges.size(); ++i)
    of.ranges[b.events.first_range + static_cast<std::uint32_t>(i)] = std::move(b.events.ranges[i]);
  for (thread_events& t : b.events.threads) {
    thread_events& known = of.threads[t.thread];
    const std::size_t room = most_events_ - events_;
    if (t.events.size() > room) {
      refused_ += t.events.size() - room;
      t.events.resize(room);
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
  return events_ < most_events_;
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
  // All events of the process, in the order of time: a call may end on another thread.
  std::vector<std::tuple<std::uint64_t, std::size_t, std::size_t>> order;
  for (const auto& [number, recorded] : of.threads) {
    open_thread& t = threads.emplace_back();
    t.made.thread = number;
    t.events = recorded.events;
    // A wait is recorded once it has lasted for a while.
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
      t.open.push_back(place);
      if (e.kind() != event_kind::call_begin) continue;
      lose_call(threads, calls.end(e), when);
      calls.begin(e, {which, place});
    }
  }
  std::vector<thread_intervals> made;
  for (open_thread& t : threads) {
    // What has no end lasts to the end of what is known.
    for (const std::size_t open : t.open) {
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
