// SPDX-License-Identifier: Apache-2.0
#include "call_tree.hpp"

#include "example_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_below(const call_tree& tree, std::uint32_t node) {
  std::vector<std::string> names;
  for (const std::uint32_t child : tree.nodes[node].children)
    names.push_back(tree.nodes[child].name);
  return names;
}

TEST(call_tree, has_equal_functions_once) {
  const call_tree tree = make_call_tree(example_profile(), {});
  EXPECT_EQ(tree.nodes[0].total, 12U);
  EXPECT_THAT(names_below(tree, 0), ElementsAre("main", "serve"));
  const std::uint32_t main = tree.nodes[0].children[0];
  EXPECT_THAT(names_below(tree, main), ElementsAre("solve(matrix<double> const&)", "wait"));
  EXPECT_EQ(tree.nodes[main].self, 0U);
  EXPECT_EQ(tree.nodes[main].total, 8U);
  // axpy is at two addresses: once inlined, once called.
  const std::uint32_t solve = tree.nodes[main].children[0];
  EXPECT_THAT(names_below(tree, solve), ElementsAre("axpy"));
  EXPECT_EQ(tree.nodes[tree.nodes[solve].children[0]].self, 3U);
  EXPECT_EQ(tree.nodes[solve].self, 3U);
}

TEST(call_tree, tells_modules_apart) {
  profile seen = example_profile();
  seen.frames[3].module = "/usr/lib/libblas.so";
  const call_tree tree = make_call_tree(seen, {});
  const std::uint32_t main = tree.nodes[0].children[0];
  EXPECT_THAT(names_below(tree, tree.nodes[main].children[0]), ElementsAre("axpy", "axpy"));
  EXPECT_THAT(tree.modules,
              ElementsAre("/opt/solver/bin/solver", "/usr/lib/libblas.so", "/usr/lib/libm.so.6"));
}

TEST(call_tree, has_processes_or_threads_for_roots) {
  call_tree tree = make_call_tree(example_profile(), {.root = call_tree_options::roots::processes});
  EXPECT_THAT(names_below(tree, 0),
              ElementsAre("node 0: solver (100)", "node 1: solver (200)", "sleep (300)"));
  tree = make_call_tree(example_profile(), {.root = call_tree_options::roots::threads});
  EXPECT_THAT(names_below(tree, tree.nodes[0].children[1]), ElementsAre("wor;ker (201)"));
  EXPECT_EQ(tree.nodes[tree.nodes[0].children[1]].total, 4U);
}

TEST(call_tree, may_omit_samples_that_do_not_compute) {
  const call_tree tree = make_call_tree(example_profile(), {.only_computing = true});
  EXPECT_EQ(tree.nodes[0].total, 7U);
}

TEST(call_tree, has_waiting_samples_last_and_outermost) {
  const call_tree tree = make_call_tree(
      example_profile(), {.root = call_tree_options::roots::processes, .has_activities = true});
  EXPECT_THAT(names_below(tree, 0), ElementsAre("node 0: solver (100)", "node 1: solver (200)",
                                                "sleep (300)", "idle", "waits"));
  const std::uint32_t idle = tree.nodes[0].children[3];
  EXPECT_TRUE(tree.nodes[idle].is_waiting);
  EXPECT_THAT(names_below(tree, idle), ElementsAre("node 1: solver (200)"));
  EXPECT_TRUE(tree.nodes[tree.nodes[idle].children[0]].is_waiting);
  EXPECT_FALSE(tree.nodes[tree.nodes[0].children[0]].is_waiting);
}

TEST(call_tree, is_of_any_depth) {
  profile seen;
  seen.frames = {{.function = "again", .module = {}, .file = {}}};
  seen.threads.resize(1);
  constexpr std::uint32_t depth = 100'000;
  for (std::uint32_t i = 0; i < depth; ++i)
    seen.stacks.push_back({0, i == 0 ? profile_stack::none : i - 1});
  seen.samples = {{.stack = depth - 1}};
  const call_tree tree = make_call_tree(seen, {});
  EXPECT_EQ(depth_first(tree).size(), depth);
  EXPECT_EQ(tree.nodes.back().depth, depth);
  EXPECT_EQ(tree.nodes[1].total, 1U);
}

} // namespace
} // namespace farcall::tool
