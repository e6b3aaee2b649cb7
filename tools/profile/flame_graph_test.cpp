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
  // main: six of twelve samples compute, with its module as title; two wait.
  EXPECT_THAT(svg, HasSubstr(R"(<g class="frame p" data-s="0" data-n="6" data-y="122"><title>main
/opt/solver/bin/solver
6 samples, 50.0 %; 0 of its own</title><rect x="0.0000%" y="122" width="50.0000%")"));
  EXPECT_THAT(svg, HasSubstr("12 samples, 100 per second and thread; the kernel dropped 7 more<"));
  EXPECT_THAT(svg, HasSubstr(R"(data-samples="12" data-computing="7")"));
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
  const std::string svg = flame_graph(
      example_profile(), {.root = call_tree_options::roots::processes, .title = "mine & yours"});
  EXPECT_THAT(svg, HasSubstr(">mine &amp; yours</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>node 1: solver (200)\n1 samples, 8.3 %;"));
}

TEST(flame_graph, shows_waiting_threads_at_the_right) {
  const std::string svg = flame_graph(example_profile());
  // Seven of twelve samples compute; then three are idle in serve, and two wait in main.
  EXPECT_THAT(svg,
              HasSubstr(R"(<g class="frame w" data-s="7" data-n="3" data-y="122"><title>idle)"));
  EXPECT_THAT(svg,
              HasSubstr(R"(<g class="frame w" data-s="10" data-n="2" data-y="122"><title>waits)"));
  EXPECT_THAT(svg,
              HasSubstr(R"(<g class="frame w" data-s="10" data-n="2" data-y="140"><title>main)"));
}

TEST(flame_graph, folds_functions_of_farcall) {
  EXPECT_THAT(flame_graph(example_profile()), Not(HasSubstr("graph gone")));
  const std::string svg = flame_graph(profile_with_farcall());
  const std::size_t hidden = svg.find("<g class=\"graph gone\"");
  ASSERT_NE(hidden, std::string::npos);
  const std::string first = svg.substr(0, hidden);
  const std::string second = svg.substr(hidden);
  EXPECT_THAT(first,
              HasSubstr(R"(<g class="frame f" data-s="0" data-n="6" data-y="140"><title>farcall
6 samples)"));
  EXPECT_THAT(first,
              HasSubstr(R"(<g class="frame p" data-s="0" data-n="6" data-y="158"><title>solve)"));
  EXPECT_THAT(first, Not(HasSubstr("<title>farcall::run")));
  EXPECT_THAT(first, Not(HasSubstr("<title>std::__invoke")));
  EXPECT_THAT(second, HasSubstr(R"(data-y="140"><title>farcall::detail::call(int))"));
  EXPECT_THAT(second,
              HasSubstr(R"(<g class="frame l" data-s="0" data-n="6" data-y="158"><title>std::)"));
  EXPECT_THAT(second, HasSubstr(R"(data-y="176"><title>farcall::run())"));
  EXPECT_THAT(second, HasSubstr(R"(data-y="194"><title>solve)"));
}

TEST(flame_graph, has_a_legend_of_its_colours) {
  const std::string svg = flame_graph(example_profile());
  EXPECT_THAT(svg, HasSubstr(R"(<tspan class="key p">■</tspan> program )"));
  EXPECT_THAT(svg, HasSubstr(R"(<tspan class="key w">■</tspan> waiting or idle )"));
}

TEST(flame_graph, leaves_title_and_legend_to_a_page) {
  const std::string svg = flame_graph(example_profile(), {.is_part_of_page = true});
  EXPECT_THAT(svg, Not(HasSubstr("<?xml")));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"key")));
  EXPECT_THAT(svg, HasSubstr(R"(data-n="12" data-y="0"><title>all)"));
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
