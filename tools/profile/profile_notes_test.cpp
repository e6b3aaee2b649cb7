// SPDX-License-Identifier: Apache-2.0
#include "profile_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Returns a profile with three frames, main, f, and g, which is inlined into f, and one frame
/// without a name.
profile profile_of(std::size_t in_main_and_f, std::size_t in_f_alone, std::size_t nameless) {
  profile seen;
  const auto frame = [](const char* function, bool is_inlined = false) {
    return profile_frame{.function = function,
                         .module = "/bin/app",
                         .file = {},
                         .line = 0,
                         .address = 0,
                         .is_inlined = is_inlined};
  };
  seen.frames = {frame("main"), frame("f"), frame("g", true), frame("0x1234")};
  constexpr auto none = profile_stack::none;
  // main > f > g, f > g, and an address alone.
  seen.stacks = {{0, none}, {1, 0}, {2, 1}, {1, none}, {2, 3}, {3, none}, {3, 0}};
  seen.threads.resize(1);
  const auto add = [&](std::uint32_t stack, std::size_t times) {
    seen.samples.resize(seen.samples.size() + times, profile_sample{.stack = stack});
  };
  add(2, in_main_and_f);
  add(4, in_f_alone);
  add(6, nameless);
  return seen;
}

TEST(profile_notes, are_empty_for_complete_profiles) {
  EXPECT_THAT(notes_on(profile_of(100, 99, 0), true), IsEmpty());
}

TEST(profile_notes, advise_on_missing_callers) {
  // g is inlined into f, so f counts as a function without callees.
  EXPECT_THAT(notes_on(profile_of(50, 50, 0), true),
              ElementsAre(HasSubstr("-fno-omit-frame-pointer, or take --call-graph dwarf")));
  EXPECT_THAT(notes_on(profile_of(50, 50, 0), false), IsEmpty());
}

TEST(profile_notes, explain_missing_names) {
  EXPECT_THAT(notes_on(profile_of(50, 0, 50), true),
              ElementsAre("functions of app have no names: it was stripped, linked with -s, or "
                          "deleted or replaced while it ran"));
  EXPECT_THAT(notes_on(profile_of(51, 0, 50), true), IsEmpty());
}

TEST(profile_notes, report_truncated_stacks) {
  const auto recursion_of = [](std::uint32_t depth) {
    profile seen = profile_of(0, 0, 0);
    seen.stacks = {{0, profile_stack::none}};
    for (std::uint32_t i = 1; i < depth; ++i)
      seen.stacks.push_back({1, i - 1});
    // An inlined function does not count as another caller.
    seen.stacks.push_back({2, depth - 1});
    seen.samples.resize(3, profile_sample{.stack = depth});
    return seen;
  };
  EXPECT_THAT(notes_on(recursion_of(127), true),
              ElementsAre("3 of 3 samples have 127 functions, the most that are recorded, and lack "
                          "the callers of these, as main"));
  EXPECT_THAT(notes_on(recursion_of(126), true), IsEmpty());
  EXPECT_THAT(notes_on(recursion_of(255), false), IsEmpty());
  EXPECT_THAT(notes_on(recursion_of(256), false), ElementsAre(HasSubstr("256 functions")));
}

TEST(profile_notes, ignore_few_samples_and_waiting_threads) {
  EXPECT_THAT(notes_on(profile_of(0, 19, 0), true), IsEmpty());
  profile seen = profile_of(0, 100, 0);
  for (profile_sample& s : seen.samples)
    s.does = activity::waits;
  EXPECT_THAT(notes_on(seen, true), IsEmpty());
  EXPECT_THAT(notes_on({}, true), IsEmpty());
}

} // namespace
} // namespace farcall::tool
