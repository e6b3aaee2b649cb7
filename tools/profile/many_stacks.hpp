// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

namespace farcall::tool {

/// Returns a profile for tests with `count` different stacks. Each stack is sampled once, except
/// the first stack, which is sampled `count` times.
[[nodiscard]] inline profile many_stacks(std::uint32_t count) {
  profile seen;
  seen.command = "many";
  seen.samples_per_second = 1000;
  seen.threads.resize(1);
  for (std::uint32_t i = 0; i < count; ++i) {
    seen.frames.push_back(
        {.function = "function" + std::to_string(i), .module = "/lib/many.so", .file = {}});
    seen.stacks.push_back({i, i % 100 == 0 ? profile_stack::none : i - 1});
    seen.samples.push_back({std::chrono::milliseconds(i), 0, i, activity::computes});
    seen.samples.push_back({std::chrono::milliseconds(i), 0, 0, activity::computes});
  }
  return seen;
}

} // namespace farcall::tool
