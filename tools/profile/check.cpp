// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <stdexcept>

namespace farcall::tool {

namespace {

void expect_below(std::size_t number, std::size_t count, const char* what, std::size_t at,
                  const char* of) {
  if (number < count) return;
  throw std::invalid_argument("the profile is damaged: " + std::string(what) + ' ' +
                              std::to_string(at) + " names " + of + ' ' + std::to_string(number) +
                              ", and there are " + std::to_string(count));
}

} // namespace

void check(const profile& seen) {
  for (std::size_t i = 0; i < seen.stacks.size(); ++i) {
    const profile_stack& stack = seen.stacks[i];
    expect_below(stack.frame, seen.frames.size(), "stack", i, "frame");
    // A caller must have a lower index than its callee, which also excludes cycles.
    if (stack.caller != profile_stack::none)
      expect_below(stack.caller, i, "stack", i, "as its caller stack");
  }
  for (std::size_t i = 0; i < seen.samples.size(); ++i) {
    const profile_sample& sample = seen.samples[i];
    expect_below(sample.thread, seen.threads.size(), "sample", i, "thread");
    expect_below(sample.stack, seen.stacks.size(), "sample", i, "stack");
    expect_below(static_cast<std::size_t>(sample.does), 3, "sample", i, "activity");
  }
}

} // namespace farcall::tool
