// SPDX-License-Identifier: Apache-2.0
#include "flame_graph.hpp"

#include "example_profile.hpp"
#include "many_stacks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(flame_graph, is_as_wide_as_shares_of_samples) {
  const std::string svg = flame_graph(example_profile());
  // main: eight of twelve samples in 1200 pixels, with its module as title.
  EXPECT_THAT(svg, HasSubstr(R"(<title>main
/opt/solver/bin/solver
8 samples, 66.7 %; 0 of its own</title><rect x="0.00" y="73" width="800.00")"));
  EXPECT_THAT(svg, HasSubstr(R"(<rect x="600.00" y="90" width="200.00")")); // wait, after solve
  EXPECT_THAT(svg, HasSubstr("12 samples, 100 per second and thread; the kernel dropped 7 more<"));
}

TEST(flame_graph, is_the_same_for_the_same_profile) {
  EXPECT_EQ(flame_graph(example_profile()), flame_graph(example_profile()));
}

TEST(flame_graph, needs_no_other_file) {
  const std::string svg = flame_graph(example_profile());
  for (const char* word : {"href", "src=", "url(", "@import", "<image"})
    EXPECT_THAT(svg, Not(HasSubstr(word)));
}

TEST(flame_graph, takes_a_title_and_roots) {
  const std::string svg =
      flame_graph(example_profile(),
                  {.tree = {.root = call_tree_options::roots::processes, .only_computing = true},
                   .title = "mine & yours"});
  EXPECT_THAT(svg, HasSubstr(">mine &amp; yours</text>"));
  EXPECT_THAT(svg, HasSubstr(">node 1: solver (200)</text>"));
  EXPECT_THAT(svg, HasSubstr(">7 samples of threads that computed"));
}

TEST(flame_graph, separates_waiting_and_idle_samples) {
  const std::string svg =
      flame_graph(example_profile(), {.tree = {.has_activities = true}, .title = {}});
  // Twelve samples: two wait in main, three are idle in serve, main computes in six.
  EXPECT_THAT(svg, HasSubstr("<title>waits\n2 samples, 16.7 %; 0 of its own</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>idle\n3 samples, 25.0 %; 0 of its own</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>main\n/opt/solver/bin/solver\n6 samples, 50.0 %;"));
  EXPECT_THAT(svg, HasSubstr("<title>main\n/opt/solver/bin/solver\n2 samples, 16.7 %;"));
}

TEST(flame_graph, has_a_legend_of_its_colours) {
  EXPECT_THAT(flame_graph(example_profile()),
              HasSubstr(R"(<tspan class="key m0">■</tspan> solver  )"
                        R"(<tspan class="key m1">■</tspan> libm.so.6  </text>)"));
  profile seen = example_profile();
  for (int i = 0; i < 100; ++i) {
    seen.frames.push_back(seen.frames[1]);
    seen.frames.back().module = fmt::format("/lib/module-{:03}.so", i);
  }
  // "■ module-000.so  " has 17 letters of 7.3 pixels; 8 of these fit into 1112.4 pixels.
  const std::string svg = flame_graph(seen);
  EXPECT_THAT(svg, HasSubstr("module-007.so  and 94 more</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("</tspan> module-008.so")));
}

TEST(flame_graph, has_no_frames_for_an_empty_profile) {
  const std::string svg = flame_graph({});
  EXPECT_THAT(svg, HasSubstr(">0 samples</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("<rect")));
}

TEST(flame_graph, omits_and_counts_frames_too_thin_to_draw) {
  // A tenth of a pixel holds 17 of 200000 samples. Each chain is 100 calls deep, so its outermost
  // 84 frames are drawn; the first chain has more samples. 1000 times 16 frames are too thin.
  const std::string svg = flame_graph(many_stacks(100'000));
  EXPECT_THAT(svg, HasSubstr("; 16000 frames are too thin to be drawn<"));
  EXPECT_LT(svg.size(), std::size_t{40} << 20U);
}

} // namespace
} // namespace farcall::tool
