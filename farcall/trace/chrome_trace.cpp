// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>
#include <farcall/trace/chrome_trace.hpp>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::trace {
namespace {

/// Length with which an event without a length is drawn. Viewers attach the ends of arrows only to
/// slices with some length.
constexpr std::int64_t moment_ns = 100;

/// Returns a time in microseconds with three decimals, in a form that does not depend on the
/// locale.
std::string microseconds(std::int64_t ns) {
  const std::int64_t size = ns < 0 ? -ns : ns;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s%" PRId64 ".%03" PRId64, ns < 0 ? "-" : "",
                size / 1000, size % 1000);
  return text.data();
}

/// Writes the rows of the JSON array of events.
class rows {
 public:
  explicit rows(std::FILE* to) : to_(to) {}
  void add(const std::string& row) {
    std::fputs(is_first_ ? "\n" : ",\n", to_);
    is_first_ = false;
    std::fputs(row.c_str(), to_);
  }

 private:
  std::FILE* to_;
  bool is_first_ = true;
};

class writer {
 public:
  writer(std::FILE* to, const timeline& from, const host_clock& clock,
         const std::function<std::string(node_id)>& name_of_node)
      : to_(to), rows_(to), from_(from), view_(from, clock), clock_(clock),
        name_of_node_(name_of_node) {}

  void write() {
    for (const process_part& p : view_.processes())
      note_bounds(p);
    for (auto& [thread, all] : bounds_)
      std::ranges::sort(all);
    std::fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", to_);
    for (const process_part& p : view_.processes())
      write_process(p);
    std::fputs("\n], \"otherData\": {", to_);
    write_clocks();
    std::fprintf(to_, ", \"events\": %zu, \"missed events\": %" PRIu64 "}}\n", from_.events(),
                 from_.missed());
  }

 private:
  using process_part = timeline_view::process_part;

  void note_bounds(const process_part& p) {
    for (const thread_intervals& t : p.threads) {
      for (const interval& i : t.intervals) {
        const auto [begin, end] = view_.times_of(p, i);
        bounds_[{p.node, t.thread}].push_back(begin);
        bounds_[{p.node, i.crosses ? i.end_thread : t.thread}].push_back(end);
      }
    }
  }

  /// Returns the end of the slice that represents an event without a length at time `begin`. The
  /// slice ends, at the latest, at the next begin or end of another slice of the thread, because
  /// viewers drop slices that cross.
  [[nodiscard]] std::int64_t end_of_moment(const process_part& p, std::uint32_t thread,
                                           std::int64_t begin) const {
    const auto all = bounds_.find({p.node, thread});
    if (all == bounds_.end()) return begin + moment_ns;
    const auto next = std::upper_bound(all->second.begin(), all->second.end(), begin);
    return next == all->second.end() ? begin + moment_ns : std::min(begin + moment_ns, *next);
  }

  [[nodiscard]] static std::string place(const process_part& p, std::uint32_t thread) {
    return "\"pid\": " + std::to_string(p.node) + ", \"tid\": " + std::to_string(thread);
  }

  void add_metadata(const process_part& p, std::uint32_t thread, const char* what,
                    const std::string& value) {
    rows_.add(std::string(R"({"ph": "M", "name": ")") + what + "\", " + place(p, thread) +
              ", \"args\": {" + value + "}}");
  }

  void write_process(const process_part& p) {
    add_metadata(p, 0, "process_name", "\"name\": " + quoted_text(name_of_node_(p.node)));
    add_metadata(p, 0, "process_sort_index", "\"sort_index\": " + std::to_string(p.node));
    for (const thread_intervals& t : p.threads) {
      const std::string name = timeline_view::name_of(p, t.thread);
      add_metadata(p, t.thread, "thread_name", "\"name\": " + quoted_text(name));
      add_metadata(p, t.thread, "thread_sort_index", "\"sort_index\": " + std::to_string(t.thread));
      for (const interval& i : t.intervals)
        write_interval(p, t.thread, i);
    }
  }

  void write_interval(const process_part& p, std::uint32_t thread, const interval& i) {
    const auto request = view_.sent(p, i);
    const auto [begin, end] = view_.times_of(p, i);
    const std::string name = view_.name_of(p, i);
    const std::string arguments = arguments_of(p, i);
    const char* const category = timeline_view::category_of(i.kind);
    const bool is_moment = i.crosses || i.kind == event_kind::post;
    const std::int64_t drawn = is_moment ? end_of_moment(p, thread, begin) : end;
    add_slice(p, thread, is_moment && is_sent(i.kind) ? "send " + name : name, category, begin,
              drawn, arguments);
    if (is_sent(i.kind) && request) {
      add_arrow("s", request->first, p, thread, begin);
      if (i.kind == event_kind::call_begin && i.is_finished) {
        if (i.crosses)
          add_slice(p, i.end_thread, "answer " + name, category, end,
                    end_of_moment(p, i.end_thread, end), "");
        add_arrow("f", request->first, p, i.end_thread, i.crosses ? end : std::max(begin, end - 1));
      }
    }
    if (i.kind == event_kind::handler_begin && request)
      add_arrow("t", request->first, p, thread, begin);
    if (i.crosses) add_beside(p, thread, name, category, begin, end);
  }

  void add_slice(const process_part& p, std::uint32_t thread, const std::string& name,
                 const char* category, std::int64_t begin, std::int64_t end,
                 const std::string& arguments) {
    std::string row = R"({"ph": "X", "name": )" + quoted_text(name) + ", \"cat\": \"" + category +
                      "\", " + place(p, thread) + ", \"ts\": " + microseconds(begin) +
                      ", \"dur\": " + microseconds(end - begin);
    if (!arguments.empty()) row += ", \"args\": {" + arguments + "}";
    rows_.add(row + "}");
  }

  void add_arrow(const char* phase, const request_id& request, const process_part& p,
                 std::uint32_t thread, std::int64_t when) {
    std::string row = std::string(R"({"ph": ")") + phase +
                      R"(", "name": "request", "cat": "request", "id": ")" +
                      std::to_string(request.node) + "." + std::to_string(request.lane) + "." +
                      std::to_string(request.position) + "\", " + place(p, thread) +
                      ", \"ts\": " + microseconds(when);
    if (*phase == 'f') row += R"(, "bp": "e")";
    rows_.add(row + "}");
  }

  /// Adds an interval on a separate track of the viewer, because the interval overlaps others.
  void add_beside(const process_part& p, std::uint32_t thread, const std::string& name,
                  const char* category, std::int64_t begin, std::int64_t end) {
    const std::string id = std::to_string(p.node) + "-" + std::to_string(++beside_);
    const std::string rest = "\", \"name\": " + quoted_text(name) + ", \"cat\": \"" + category +
                             "\", \"id\": \"" + id + "\", " + place(p, thread) + ", \"ts\": ";
    rows_.add(std::string(R"({"ph": "b)") + rest + microseconds(begin) + "}");
    rows_.add(std::string(R"({"ph": "e)") + rest + microseconds(end) + "}");
  }

  [[nodiscard]] std::string arguments_of(const process_part& p, const interval& i) const {
    std::string made;
    const auto add = [&](const char* name, std::uint64_t value) {
      if (!made.empty()) made += ", ";
      made += "\"" + std::string(name) + "\": " + std::to_string(value);
    };
    switch (i.kind) {
    case event_kind::call_begin:
    case event_kind::post:
    case event_kind::handler_begin: {
      const auto lane = p.process->lanes.find(i.first.lane());
      if (lane != p.process->lanes.end())
        add(i.kind == event_kind::handler_begin ? "from node" : "to node", lane->second.peer);
      add("lane", i.first.lane());
      break;
    }
    case event_kind::put_begin:
    case event_kind::get_begin:
    case event_kind::copy_begin:
      add("node", i.first.lane());
      add("bytes", i.first.position);
      break;
    default:
      break;
    }
    if (!i.is_finished && i.kind != event_kind::post) {
      if (!made.empty()) made += ", ";
      made += "\"unfinished\": true";
    }
    return made;
  }

  /// Writes the error bounds of the nodes' clocks.
  void write_clocks() {
    std::fputs("\"clocks\": [", to_);
    const char* between = "";
    for (const process_part& p : view_.processes()) {
      const clock_alignment& c = p.process->clock;
      const std::int64_t error = whole_ns(c.error() * 1e9 / clock_.ticks_per_second * c.rate());
      std::fprintf(
          to_, "%s{\"node\": %u, \"error_ns\": %" PRId64 ", \"is_hosts\": %s, \"is_known\": %s}",
          between, p.node, c.is_same_clock() ? 0 : error, c.is_same_clock() ? "true" : "false",
          c.is_known() || p.node == host_id ? "true" : "false");
      between = ", ";
    }
    std::fputs("]", to_);
  }

  std::FILE* to_;
  rows rows_;
  const timeline& from_;
  const timeline_view view_;
  host_clock clock_;
  const std::function<std::string(node_id)>& name_of_node_;
  /// Sorted times at which intervals begin or end, for each node and thread.
  std::map<std::pair<node_id, std::uint32_t>, std::vector<std::int64_t>> bounds_;
  std::uint64_t beside_ = 0;
};

} // namespace

bool write_chrome_trace(std::FILE* to, const timeline& from, const host_clock& clock,
                        const std::function<std::string(node_id)>& name_of_node) {
  writer(to, from, clock, name_of_node).write();
  return std::fflush(to) == 0 && std::ferror(to) == 0;
}

} // namespace farcall::trace
