// SPDX-License-Identifier: Apache-2.0
#include "recorded_samples.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

recorded_samples first_part() {
  recorded_samples part;
  part.runs.emplace_back().process = 7;
  part.threads.push_back({.run = 0, .number = 7, .name = "main"});
  part.places = {{.module = 0, .offset = 16}, {.module = modules::none, .offset = 32}};
  part.stacks = {{.place = 0}, {.place = 1, .caller = 0}};
  part.samples = {{.time = 1, .thread = 0, .stack = 1}};
  return part;
}

TEST(recorded_samples, come_in_parts) {
  recorded_samples all;
  ASSERT_TRUE(append(all, first_part(), told::new_threads, 1));
  recorded_samples second;
  second.threads.push_back({.run = 0, .number = 8, .name = "worker"});
  second.stacks = {{.place = 1, .caller = 1}};
  second.samples = {{.time = 2, .thread = 1, .stack = 2}};
  second.lost = 5;
  ASSERT_TRUE(append(all, second, told::new_threads, 1));
  EXPECT_EQ(all.threads.size(), 2U);
  EXPECT_EQ(all.samples.size(), 2U);
  EXPECT_EQ(all.lost, 5U);

  recorded_samples last;
  last.runs.emplace_back().program = "/bin/app";
  last.threads = all.threads;
  ASSERT_TRUE(append(all, last, told::all_threads, 1));
  ASSERT_EQ(all.runs.size(), 1U);
  EXPECT_EQ(all.runs[0].program, "/bin/app");
  EXPECT_EQ(all.threads.size(), 2U);
}

TEST(recorded_samples, refuse_parts_with_invalid_references) {
  const std::function<void(recorded_samples&)> damages[] = {
      [](recorded_samples& p) { p.threads[0].run = 1; },
      [](recorded_samples& p) { p.runs[0].parent = 1; },
      [](recorded_samples& p) { p.places[0].module = 1; },
      [](recorded_samples& p) { p.stacks[0].place = 2; },
      [](recorded_samples& p) { p.stacks[0].caller = 0; }, // itself
      [](recorded_samples& p) { p.stacks[1].caller = 2; },
      [](recorded_samples& p) { p.samples[0].thread = 1; },
      [](recorded_samples& p) { p.samples[0].stack = 2; },
  };
  for (const auto& damage : damages) {
    recorded_samples all;
    recorded_samples part = first_part();
    damage(part);
    EXPECT_FALSE(append(all, part, told::new_threads, 1));
    EXPECT_TRUE(all.runs.empty() && all.places.empty() && all.samples.empty());
  }
  // A stack that is too deep, in several parts and in one.
  recorded_samples deep = first_part();
  for (std::uint32_t caller = 1; caller < 1990; ++caller)
    deep.stacks.push_back({.place = 0, .caller = caller});
  recorded_samples of_parts;
  EXPECT_TRUE(append(of_parts, deep, told::new_threads, 1));
  recorded_samples deeper;
  for (std::uint32_t caller = 1990; caller < 2010; ++caller)
    deeper.stacks.push_back({.place = 0, .caller = caller});
  EXPECT_FALSE(append(of_parts, deeper, told::new_threads, 1));
  deep.stacks.insert(deep.stacks.end(), deeper.stacks.begin(), deeper.stacks.end());
  recorded_samples of_one;
  EXPECT_FALSE(append(of_one, deep, told::new_threads, 1));
  // The final threads are fewer than the samples refer to.
  recorded_samples all;
  ASSERT_TRUE(append(all, first_part(), told::new_threads, 1));
  EXPECT_FALSE(append(all, {}, told::all_threads, 1));
  EXPECT_EQ(all.threads.size(), 1U);
}

} // namespace
} // namespace farcall::tool
