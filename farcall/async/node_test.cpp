// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/node.hpp>

#include <gtest/gtest.h>

#include <sstream>
#include <unordered_set>

namespace farcall::test::node_test {
namespace {

TEST(nodes, are_written_as_messages_speak_of_them) {
  detail::job_core job;
  std::ostringstream text;
  text << node(job, 0) << ", " << node(job, 3) << ", " << node();
  EXPECT_EQ(text.str(), "the host (node 0), node 3, no node");
}

TEST(nodes, are_keys_of_unordered_containers) {
  detail::job_core job;
  std::unordered_set<node> nodes{node(job, 1), node(job, 2), node(job, 1)};
  EXPECT_EQ(nodes.size(), 2U);
  EXPECT_TRUE(nodes.contains(node(job, 2)));
  EXPECT_FALSE(nodes.contains(node(job, 0)));
}

} // namespace
} // namespace farcall::test::node_test
