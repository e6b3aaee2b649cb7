// SPDX-License-Identifier: Apache-2.0
#include "recorded_samples.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <tuple>

namespace farcall::tool {

namespace {

/// Frames of the recorded places. Appends them to the frames of a profile, and keeps for each place
/// the indices of its frames.
class frame_table {
 public:
  frame_table(profile& into, std::size_t places) : into_(into), of_place_(places) {}

  void set(std::size_t place, const symbol& found, const std::string& module) {
    for (std::size_t i = 0; i < found.frames.size(); ++i) {
      const source_frame& frame = found.frames[i];
      of_place_[place].push_back(static_cast<std::uint32_t>(into_.frames.size()));
      into_.frames.push_back({.function = frame.function,
                              .module = module,
                              .file = frame.file,
                              .line = frame.line,
                              .address = found.address,
                              .is_inlined = i + 1 < found.frames.size()});
    }
  }
  /// Returns the frames at a place, innermost first.
  [[nodiscard]] const std::vector<std::uint32_t>& of(std::size_t place) const {
    return of_place_[place];
  }

 private:
  profile& into_;
  std::vector<std::vector<std::uint32_t>> of_place_;
};

} // namespace

void number_nodes(recorded_samples& of) {
  std::map<std::size_t, node_id> targets;
  node_id highest_rank = 0;
  for (const auto& run : of.runs) {
    if (run.part.rank != no_node) highest_rank = std::max(highest_rank, run.part.rank);
  }
  // Node numbers by process id. A target that was started by a wrapper, which is a target itself,
  // gets the number of the wrapper. A process that executes another program keeps its number.
  std::map<pid_t, node_id> given;
  for (auto& run : of.runs) {
    if (run.part.rank != no_node) run.node = run.part.rank;
    if (!run.part.is_target || !run.parent) continue;
    const auto& parent = of.runs[*run.parent];
    if (parent.part.is_target && given.contains(parent.process)) {
      run.node = parent.node;
    } else if (const auto same = given.find(run.process); same != given.end()) {
      run.node = same->second;
    } else if (!parent.part.is_server) {
      const node_id before = parent.part.rank == no_node ? 0 : highest_rank;
      run.node = ++targets.try_emplace(*run.parent, before).first->second;
    }
    given[run.process] = run.node;
  }
  for (const auto& [host, count] : targets) {
    if (of.runs[host].node == no_node) of.runs[host].node = host_id;
  }
}

namespace {

/// Maximum number of functions in a stack that another process has sent. Real samplers send fewer:
/// the kernel follows at most 640 callers, and stacks found in copies have at most 256.
constexpr std::size_t max_callers = 2000;

/// True if each stack of a part has at most max_callers functions. The caller must have checked
/// that the callers of each stack have lower indices.
bool are_stacks_short(const recorded_samples& known, const recorded_samples& part) {
  const std::size_t first = known.stacks.size();
  std::vector<std::size_t> depths; ///< number of functions in each stack of the part
  for (const recorded_samples::stack& stack : part.stacks) {
    std::size_t depth = 1;
    for (std::uint32_t at = stack.caller; at != profile_stack::none; ++depth) {
      if (at >= first) {
        depth += depths[at - first];
        break;
      }
      if (depth > max_callers) return false;
      at = known.stacks[at].caller;
    }
    if (depth > max_callers) return false;
    depths.push_back(depth);
  }
  return true;
}

} // namespace

bool append(recorded_samples& to, recorded_samples part, told threads, std::size_t files) {
  const bool replaces = threads == told::all_threads;
  const std::size_t runs = part.runs.size() + (replaces ? 0 : to.runs.size());
  const std::size_t all_threads = part.threads.size() + (replaces ? 0 : to.threads.size());
  const std::size_t places = to.places.size() + part.places.size();
  const std::size_t first_stack = to.stacks.size();
  const std::size_t stacks = first_stack + part.stacks.size();
  bool fits = all_threads >= to.threads.size() && stacks < profile_stack::none;
  for (const auto& run : part.runs)
    fits = fits && (!run.parent || *run.parent < runs);
  for (const auto& thread : part.threads)
    fits = fits && thread.run < runs;
  for (const auto& place : part.places)
    fits = fits && (place.module == modules::none || place.module < files);
  for (std::size_t i = 0; i < part.stacks.size(); ++i) {
    const auto& stack = part.stacks[i];
    const bool has_caller = stack.caller != profile_stack::none;
    fits = fits && stack.place < places && (!has_caller || stack.caller < first_stack + i);
  }
  for (const auto& sample : part.samples)
    fits = fits && sample.thread < all_threads && sample.stack < stacks;
  if (!fits || !are_stacks_short(to, part)) return false;

  if (replaces) {
    to.runs.clear();
    to.threads.clear();
  }
  const auto add = [](auto& behind, auto& from) {
    behind.insert(behind.end(), std::make_move_iterator(from.begin()),
                  std::make_move_iterator(from.end()));
  };
  add(to.runs, part.runs);
  add(to.threads, part.threads);
  add(to.places, part.places);
  add(to.stacks, part.stacks);
  add(to.samples, part.samples);
  to.lost = part.lost;
  to.was_throttled = part.was_throttled;
  return true;
}

symbol_source symbols_of(const modules& files) {
  return {.path = [&files](std::uint32_t module) { return files.all()[module].path; },
          .symbols =
              [&files](std::uint32_t module, std::span<const std::uint64_t> offsets) {
                return symbolize(files.all()[module], offsets);
              }};
}

void add_samples(const recorded_samples& from, const symbol_source& names, std::uint64_t start,
                 const lookup_progress& tell, profile& into) {
  const auto first_thread = static_cast<std::uint32_t>(into.threads.size());
  for (const auto& t : from.threads) {
    const auto& run = from.runs[t.run];
    into.threads.push_back({.process = run.process,
                            .thread = t.number,
                            .node = run.node,
                            .name = t.name,
                            .program = run.program,
                            .is_main = t.number == run.process,
                            .machine = run.machine});
  }
  into.lost += from.lost;

  // Sort the places by module and offset, because the names of a module are looked up in one call
  // with sorted offsets.
  const auto& places = from.places;
  std::vector<std::uint32_t> order(places.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(
      order, {}, [&](std::uint32_t i) { return std::tuple(places[i].module, places[i].offset); });
  frame_table frames(into, places.size());
  for (std::size_t at = 0; at < order.size();) {
    tell(at, order.size());
    const std::uint32_t module = places[order[at]].module;
    std::size_t end = at;
    std::vector<std::uint64_t> offsets;
    for (; end < order.size() && places[order[end]].module == module; ++end)
      offsets.push_back(places[order[end]].offset);
    if (module == modules::none) {
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        source_frame nameless{.function = address_text(offsets[i]), .file = {}, .line = 0};
        frames.set(order[at + i], {.address = offsets[i], .frames = {std::move(nameless)}}, {});
      }
    } else {
      const std::vector<symbol> symbols = names.symbols(module, offsets);
      for (std::size_t i = 0; i < offsets.size(); ++i)
        frames.set(order[at + i], symbols[i], names.path(module));
    }
    at = end;
  }
  tell(order.size(), order.size());

  // A stack's callers have a lower index than the stack, so they are already converted.
  std::vector<std::uint32_t> ends;
  ends.reserve(from.stacks.size());
  for (const auto& raw : from.stacks) {
    std::uint32_t stack = raw.caller == profile_stack::none ? raw.caller : ends[raw.caller];
    for (const std::uint32_t frame : std::views::reverse(frames.of(raw.place))) {
      into.stacks.push_back({.frame = frame, .caller = stack});
      stack = static_cast<std::uint32_t>(into.stacks.size() - 1);
    }
    ends.push_back(stack);
  }
  for (const auto& s : from.samples) {
    const std::uint64_t since = s.time > start ? s.time - start : 0;
    into.samples.push_back({.at = std::chrono::nanoseconds(since),
                            .thread = first_thread + s.thread,
                            .stack = ends[s.stack],
                            .does = activity::computes});
  }
}

} // namespace farcall::tool
