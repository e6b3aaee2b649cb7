#include "profile_notes.hpp"

#include "text.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::size_t fewest_samples = 20;

/// The frame that holds those which were inlined into it.
std::uint32_t outermost_of_call(const profile& seen, std::uint32_t stack) {
  while (seen.frames[seen.stacks[stack].frame].is_inlined &&
         seen.stacks[stack].caller != profile_stack::none) {
    stack = seen.stacks[stack].caller;
  }
  return stack;
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
  if (computing < fewest_samples) return notes;
  const auto most = std::ranges::max_element(nameless, {}, [](const auto& n) { return n.second; });
  if (most != nameless.end() && 2 * most->second >= computing) {
    notes.push_back(fmt::format("functions of {} have no names: it was stripped, or linked with -s",
                                valid_text(base_name(most->first))));
  }
  if (by_frame_pointers && 2 * without_caller >= computing) {
    notes.emplace_back("most samples have no callers: build with -fno-omit-frame-pointer, or take "
                       "--call-graph dwarf");
  }
  return notes;
}

} // namespace farcall::tool
