// SPDX-License-Identifier: Apache-2.0
#include "profile_notes.hpp"

#include "text.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::size_t min_samples = 20;
/// Maximum number of functions of a stack that was found by frame pointers. Both the kernel
/// (kernel.perf_event_max_stack) and ptrace_session stop at this number.
constexpr std::size_t max_by_frame_pointers = 127;
/// Maximum number of functions of a stack that the unwinder has found in a copy of the stack.
constexpr std::size_t max_by_copies = 256;

/// Returns the stack without the innermost frames that were inlined. The result begins with the
/// function into whose code they were inlined.
std::uint32_t outermost_of_call(const profile& seen, std::uint32_t stack) {
  while (seen.frames[seen.stacks[stack].frame].is_inlined &&
         seen.stacks[stack].caller != profile_stack::none) {
    stack = seen.stacks[stack].caller;
  }
  return stack;
}

/// Counts the samples whose stacks have at least `least` functions. Inlined functions are not
/// counted.
std::size_t samples_of_depth(const profile& seen, std::size_t least) {
  std::vector<std::size_t> depths;
  depths.reserve(seen.stacks.size());
  for (const profile_stack& stack : seen.stacks) {
    const std::size_t above = stack.caller == profile_stack::none ? 0 : depths[stack.caller];
    depths.push_back(above + (seen.frames[stack.frame].is_inlined ? 0 : 1));
  }
  return static_cast<std::size_t>(std::ranges::count_if(
      seen.samples, [&](const profile_sample& s) { return depths[s.stack] >= least; }));
}

} // namespace

std::vector<std::string> notes_on(const profile& seen, bool by_frame_pointers) {
  std::size_t computing = 0;
  std::size_t without_caller = 0;
  std::map<std::string, std::size_t> nameless; // by module
  for (const profile_sample& sample : seen.samples) {
    if (sample.does != activity::computes) continue;
    ++computing;
    const profile_frame& innermost = seen.frames[seen.stacks[sample.stack].frame];
    if (innermost.function.starts_with("0x") && !innermost.module.empty())
      ++nameless[innermost.module];
    const std::uint32_t call = outermost_of_call(seen, sample.stack);
    if (seen.stacks[call].caller == profile_stack::none) ++without_caller;
  }
  std::vector<std::string> notes;
  const std::size_t max_callers = by_frame_pointers ? max_by_frame_pointers : max_by_copies;
  if (const std::size_t cut = samples_of_depth(seen, max_callers); cut > 0) {
    notes.push_back(
        fmt::format("{} of {} samples have {} functions, the most that are recorded, and "
                    "lack the callers of these, as main",
                    cut, seen.samples.size(), max_callers));
  }
  if (computing < min_samples) return notes;
  const auto most = std::ranges::max_element(nameless, {}, [](const auto& n) { return n.second; });
  if (most != nameless.end() && 2 * most->second >= computing) {
    notes.push_back(
        fmt::format("functions of {} have no names: it was stripped, linked with -s, or "
                    "deleted or replaced while it ran",
                    valid_text(base_name(most->first))));
  }
  if (by_frame_pointers && 2 * without_caller >= computing) {
    notes.emplace_back("most samples have no callers: build with -fno-omit-frame-pointer, or take "
                       "--call-graph dwarf");
  }
  return notes;
}

} // namespace farcall::tool
