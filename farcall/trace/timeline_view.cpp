// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/timeline_view.hpp>

#include <algorithm>
#include <cmath>

namespace farcall::trace {

namespace {

/// Shortens a long name to its beginning and its end. Names of templates may have thousands of
/// bytes, and the output repeats the name for each interval.
std::string shown_name(const std::string& name) {
  constexpr std::size_t longest = 512;
  constexpr std::size_t at_end = 128;
  if (name.size() <= longest) return name;
  const auto whole_from = [&](std::size_t at) {
    while (at < name.size() && (static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80U)
      ++at;
    return at;
  };
  return name.substr(0, whole_from(longest - at_end)) + "…" +
         name.substr(whole_from(name.size() - at_end));
}

} // namespace

std::int64_t whole_ns(double ns) noexcept {
  constexpr double most = 1e18;
  return std::isnan(ns) ? 0 : std::llround(std::clamp(ns, -most, most));
}

timeline_view::timeline_view(const timeline& of, const host_clock& clock)
    : from_(of), clock_(clock) {
  for (const auto& [node, process] : from_.processes())
    all_.push_back({node, &process, from_.intervals_of(process)});
  for (const process_part& p : all_)
    note_requests(p);
  std::sort(sent_.begin(), sent_.end());
  std::sort(handled_.begin(), handled_.end());
}

void timeline_view::note_requests(const process_part& p) {
  for (const thread_intervals& t : p.threads) {
    for (const interval& i : t.intervals) {
      if (is_sent(i.kind)) sent_.emplace_back(from_.request_of(p.node, i.first), ns(p, i.begin));
      if (i.kind == event_kind::handler_begin)
        handled_.push_back(from_.request_of(p.node, i.first));
    }
  }
}

std::int64_t timeline_view::ns(const process_part& p, std::uint64_t ticks) const {
  const double since = p.process->clock.in_host_ticks(ticks, clock_.origin);
  return whole_ns(since * 1e9 / clock_.ticks_per_second);
}

std::pair<std::int64_t, std::int64_t> timeline_view::times_of(const process_part& p,
                                                              const interval& i) const {
  std::int64_t begin = ns(p, i.begin);
  if (i.kind == event_kind::handler_begin) {
    if (const auto request = sent(p, i)) begin = std::max(begin, request->second);
  }
  return {begin, std::max(ns(p, i.end), begin)};
}

std::optional<std::pair<request_id, std::int64_t>> timeline_view::sent(const process_part& p,
                                                                       const interval& i) const {
  const request_id request = from_.request_of(p.node, i.first);
  if (request.lane == 0 || !std::binary_search(handled_.begin(), handled_.end(), request))
    return {};
  const auto at = std::lower_bound(sent_.begin(), sent_.end(), request,
                                   [](const auto& s, const request_id& r) { return s.first < r; });
  if (at == sent_.end() || at->first != request) return {};
  return *at;
}

std::string timeline_view::name_of(const process_part& p, std::uint32_t thread) {
  const thread_events& known = p.process->threads.at(thread);
  return known.name + " (" + std::to_string(known.process_thread) + ")";
}

std::string timeline_view::name_of(const process_part& p, const interval& i) const {
  return shown_name(whole_name_of(p, i));
}

std::string timeline_view::whole_name_of(const process_part& p, const interval& i) const {
  switch (i.kind) {
  case event_kind::wait_begin:
    return "wait";
  case event_kind::sleep_begin:
    return "sleep";
  case event_kind::put_begin:
    return "put";
  case event_kind::get_begin:
    return "get";
  case event_kind::copy_begin:
    return "copy";
  case event_kind::range_begin: {
    const auto name = p.process->ranges.find(i.first.key);
    return name == p.process->ranges.end() ? "range" : name->second;
  }
  default: {
    const std::string name = from_.function_of(p.node, i.first);
    return name.empty() ? "function " + std::to_string(i.first.key) : name;
  }
  }
}

const char* timeline_view::category_of(event_kind kind) noexcept {
  switch (kind) {
  case event_kind::call_begin:
  case event_kind::post:
    return "call";
  case event_kind::handler_begin:
    return "handler";
  case event_kind::wait_begin:
  case event_kind::sleep_begin:
    return "wait";
  case event_kind::range_begin:
    return "range";
  default:
    return "copy";
  }
}

} // namespace farcall::trace
