// SPDX-License-Identifier: Apache-2.0
#include "collapsed_stacks.hpp"

#include "example_profile.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(collapsed_stacks, are_lines_with_counts) {
  EXPECT_EQ(collapsed_stacks(example_profile()), "main;solve(matrix<double> const&) 3\n"
                                                 "main;solve(matrix<double> const&);axpy 3\n"
                                                 "main;wait 2\n"
                                                 "serve 3\n"
                                                 "serve;a:b <&\"'��]]> operator() 1\n");
  EXPECT_EQ(collapsed_stacks(profile{}), "");
}

TEST(collapsed_stacks, begin_with_the_thread_where_asked) {
  EXPECT_EQ(collapsed_stacks(example_profile(),
                             {.root = call_tree_options::roots::threads, .only_computing = true}),
            "node 0: solver (100);solver (100);main;solve(matrix<double> const&) 3\n"
            "node 0: solver (100);solver (100);main;solve(matrix<double> const&);axpy 3\n"
            "node 1: solver (200);wor:ker (201);serve;a:b <&\"'��]]> operator() 1\n");
}

TEST(collapsed_stacks, call_nameless_functions_unknown) {
  profile seen = example_profile();
  seen.frames[5].function.clear();
  EXPECT_EQ(collapsed_stacks(seen).find("[unknown] 3\n"), 0U); // sorts before the others
}

} // namespace
} // namespace farcall::tool
