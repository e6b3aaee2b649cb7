// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>
#include <farcall/trace/archive.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace farcall::trace {
namespace {

archive::region_role role_of(event_kind kind) noexcept {
  switch (kind) {
  case event_kind::call_begin:
  case event_kind::post:
    return archive::region_role::call;
  case event_kind::handler_begin:
    return archive::region_role::handler;
  case event_kind::wait_begin:
  case event_kind::sleep_begin:
    return archive::region_role::wait;
  case event_kind::range_begin:
    return archive::region_role::range;
  default:
    return archive::region_role::copy;
  }
}

class archive_maker {
 public:
  archive_maker(const timeline& from, const host_clock& clock) : view_(from, clock) {}

  archive make(const std::function<std::string(node_id)>& name_of_node) {
    for (const timeline_view::process_part& p : view_.processes()) {
      made_.processes.push_back(valid_text(name_of_node(p.node)));
      for (const thread_intervals& t : p.threads) {
        const auto number = static_cast<std::uint32_t>(made_.locations.size());
        locations_[{p.node, t.thread}] = number;
        made_.locations.push_back(
            {made_.processes.size() - 1, valid_text(timeline_view::name_of(p, t.thread)), {}});
      }
    }
    find_first_time();
    for (const timeline_view::process_part& p : view_.processes()) {
      for (const thread_intervals& t : p.threads)
        add_regions(p, t);
    }
    add_messages();
    for (archive::location& l : made_.locations) {
      std::ranges::stable_sort(l.events, {}, &archive::event::ns);
      if (!l.events.empty()) made_.length_ns = std::max(made_.length_ns, l.events.back().ns);
    }
    return std::move(made_);
  }

 private:
  using process_part = timeline_view::process_part;

  struct end_of_request {
    std::uint32_t location = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t end_location = 0;
    bool has_reply = false;
  };

  /// Finds the time of the earliest event, if it is before the timeline's origin, which is possible
  /// because clocks are inexact. Times in the archive are then counted from this event, because
  /// they have no sign.
  void find_first_time() {
    for (const process_part& p : view_.processes()) {
      for (const thread_intervals& t : p.threads) {
        for (const interval& i : t.intervals)
          first_ = std::min(first_, view_.times_of(p, i).first);
      }
    }
  }

  [[nodiscard]] std::uint64_t since_first(std::int64_t ns) const {
    return static_cast<std::uint64_t>(ns - first_);
  }

  [[nodiscard]] std::uint32_t region_of(const std::string& name, event_kind kind) {
    const archive::region_role role = role_of(kind);
    const auto next = static_cast<std::uint32_t>(made_.regions.size());
    const auto [at, is_new] = regions_.try_emplace({name, role}, next);
    if (is_new) made_.regions.push_back({valid_text(name), role});
    return at->second;
  }

  void add(std::uint32_t location, archive::event_type type, std::uint64_t ns,
           std::uint32_t region) {
    made_.locations[location].events.push_back({ns, type, region, 0, 0});
  }

  void add_regions(const process_part& p, const thread_intervals& t) {
    const std::uint32_t location = locations_.at({p.node, t.thread});
    // Stack of the regions that were entered and not yet left: the end time and the index of each,
    // the innermost last.
    std::vector<std::pair<std::uint64_t, std::uint32_t>> open;
    const auto leave_before = [&](std::uint64_t ns) {
      for (; !open.empty() && open.back().first <= ns; open.pop_back())
        add(location, archive::event_type::leave, open.back().first, open.back().second);
    };
    // Earliest time at which the next region may begin. It keeps the begins in order after some of
    // them were moved.
    std::uint64_t earliest = 0;
    for (const interval& i : t.intervals) {
      const auto [first, last] = view_.times_of(p, i);
      const std::uint64_t begin = earliest = std::max(since_first(first), earliest);
      std::uint64_t end = std::max(since_first(last), begin);
      note_request(p, i, location, begin, end);
      const bool is_moment = i.crosses || i.kind == event_kind::post;
      const std::string name = view_.name_of(p, i);
      const std::uint32_t region =
          region_of(is_moment && is_sent(i.kind) ? "send " + name : name, i.kind);
      leave_before(begin);
      add(location, archive::event_type::enter, begin, region);
      if (is_moment) end = begin;
      // Let the region end no later than its enclosing region. The region's times may say
      // otherwise, because begins of handlers are moved if the clocks of the nodes disagree.
      if (!open.empty()) end = std::min(end, open.back().first);
      open.emplace_back(end, region);
    }
    leave_before(UINT64_MAX);
  }

  void note_request(const process_part& p, const interval& i, std::uint32_t location,
                    std::uint64_t begin, std::uint64_t end) {
    const auto request = view_.sent(p, i);
    if (!request) return;
    end_of_request noted{location, begin, end, location, false};
    if (i.kind == event_kind::handler_begin) {
      noted.has_reply = i.is_finished;
      handlers_[request->first] = noted;
    } else {
      const auto ends_on = locations_.find({p.node, i.end_thread});
      if (ends_on != locations_.end()) noted.end_location = ends_on->second;
      noted.has_reply = i.kind == event_kind::call_begin && i.is_finished;
      calls_[request->first] = noted;
    }
  }

  void add_message(std::uint32_t from, std::uint64_t sent, std::uint32_t to,
                   std::uint64_t received) {
    const std::uint32_t tag = ++last_tag_;
    made_.locations[from].events.push_back({sent, archive::event_type::send, 0, to, tag});
    made_.locations[to].events.push_back({received, archive::event_type::receive, 0, from, tag});
  }

  void add_messages() {
    for (const auto& [request, call] : calls_) {
      const auto at = handlers_.find(request);
      if (at == handlers_.end()) continue;
      const end_of_request& handler = at->second;
      add_message(call.location, call.begin, handler.location, handler.begin);
      if (!call.has_reply || !handler.has_reply) continue;
      add_message(handler.location, std::min(handler.end, call.end), call.end_location, call.end);
    }
  }

  const timeline_view view_;
  std::int64_t first_ = 0;
  archive made_;
  std::map<std::pair<node_id, std::uint32_t>, std::uint32_t> locations_;
  std::map<std::pair<std::string, archive::region_role>, std::uint32_t> regions_;
  std::map<request_id, end_of_request> calls_;
  std::map<request_id, end_of_request> handlers_;
  std::uint32_t last_tag_ = 0;
};

} // namespace

archive archive_of(const timeline& from, const host_clock& clock,
                   const std::function<std::string(node_id)>& name_of_node) {
  return archive_maker(from, clock).make(name_of_node);
}

} // namespace farcall::trace
