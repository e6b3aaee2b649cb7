// SPDX-License-Identifier: Apache-2.0
#include "speedscope.hpp"

#include "check.hpp"
#include "text.hpp"

#include <tools/common/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace farcall::tool {

namespace {

constexpr auto speedscope_schema = "https://www.speedscope.app/file-format-schema.json";

/// Frames as speedscope needs them. It distinguishes functions, but not addresses, so frames with
/// the same function, file and module become one entry.
struct shared_frames {
  std::vector<std::uint32_t> of_frame;
  std::vector<std::string> written;
};

shared_frames share_frames(const profile& seen) {
  shared_frames shared;
  std::map<std::tuple<std::string, std::string, std::string>, std::uint32_t> known;
  for (const profile_frame& frame : seen.frames) {
    const auto next = static_cast<std::uint32_t>(shared.written.size());
    const auto [at, is_new] =
        known.try_emplace({name_of(frame), valid_text(frame.file), valid_text(frame.module)}, next);
    if (is_new) {
      const auto& [name, file, module] = at->first;
      json made{{"name", name}};
      // Use the module in place of an unknown file, because speedscope chooses colours by the file.
      if (const std::string& place = file.empty() ? module : file; !place.empty())
        made["file"] = place;
      shared.written.push_back(made.dump());
    }
    shared.of_frame.push_back(at->second);
  }
  return shared;
}

std::string written_stack(const profile& seen, const shared_frames& shared, std::uint32_t stack) {
  std::vector<std::uint32_t> frames;
  for (; stack != profile_stack::none; stack = seen.stacks[stack].caller)
    frames.push_back(shared.of_frame[seen.stacks[stack].frame]);
  std::reverse(frames.begin(), frames.end());
  return json_numbers(frames).dump();
}

/// A stack, and the number of successive samples with this stack.
using stack_run = std::pair<std::uint32_t, std::uint64_t>;

json thread_profile(const profile& seen, const shared_frames& shared, const profile_thread& thread,
                    const std::vector<stack_run>& runs) {
  const double seconds = seen.seconds_per_sample();
  std::vector<std::string> samples;
  std::vector<double> weights;
  std::uint64_t count = 0;
  for (const auto& [stack, times] : runs) {
    samples.push_back(written_stack(seen, shared, stack));
    weights.push_back(static_cast<double>(times) * (seconds > 0 ? seconds : 1));
    count += times;
  }
  return {{"type", "sampled"},
          {"name", process_name(thread) + ", " + thread_name(thread)},
          {"unit", seconds > 0 ? "seconds" : "none"},
          {"startValue", 0},
          {"endValue", static_cast<double>(count) * (seconds > 0 ? seconds : 1)},
          {"samples", json_list(samples)},
          {"weights", json_numbers(weights)}};
}

} // namespace

std::string speedscope_json(const profile& seen) {
  check(seen);
  const shared_frames shared = share_frames(seen);
  std::vector<std::vector<stack_run>> runs(seen.threads.size());
  for (const profile_sample& sample : seen.samples) {
    auto& of_thread = runs[sample.thread];
    if (of_thread.empty() || of_thread.back().first != sample.stack)
      of_thread.emplace_back(sample.stack, 0);
    ++of_thread.back().second;
  }
  json profiles = json::array();
  for (std::size_t i = 0; i < seen.threads.size(); ++i) {
    if (!runs[i].empty())
      profiles.push_back(thread_profile(seen, shared, seen.threads[i], runs[i]));
  }
  json file{{"$schema", speedscope_schema}};
  file["shared"]["frames"] = json_list(shared.written);
  const bool has_profiles = profiles != json::array();
  file["profiles"] = std::move(profiles);
  file["name"] = valid_text(seen.command);
  if (has_profiles) file["activeProfileIndex"] = 0;
  file["exporter"] = "farcall " FARCALL_TOOL_VERSION;
  return file.dump() + '\n';
}

} // namespace farcall::tool
