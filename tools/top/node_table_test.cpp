// SPDX-License-Identifier: Apache-2.0
#include "node_table.hpp"

#include <tools/common/table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<node_rates> some_nodes() {
  std::vector<node_rates> nodes(3);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].job = 100;
    nodes[i].node = static_cast<node_id>(i);
    nodes[i].name = "node " + std::to_string(i);
    nodes[i].is_here = true;
    nodes[i].program = "solver";
  }
  nodes[1].calls = 1e6;
  nodes[1].p99 = 2000;
  nodes[1].function = "solve(std::vector<double, std::allocator<double> > const&, int, int)";
  nodes[2].calls = 10;
  nodes[2].queue = 5;
  nodes[2].resident_bytes = 1 << 20;
  return nodes;
}

TEST(node_table, fits_any_width) {
  for (std::size_t width = 1; width < 300; ++width) {
    for (const std::string& line : node_table(some_nodes(), width))
      EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(node_table, keeps_important_columns_if_space_is_short) {
  const std::string header = node_table(some_nodes(), 20).front();
  EXPECT_THAT(header, HasSubstr("node"));
  EXPECT_THAT(header, HasSubstr("calls/s"));
  EXPECT_THAT(header, Not(HasSubstr("name")));
}

TEST(node_table, shows_everything_without_a_width) {
  const auto lines = node_table(some_nodes(), 0);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], HasSubstr("function"));
  EXPECT_THAT(lines[2], HasSubstr("solve(std::vector<double, std::allocator<double> > const&"));
  EXPECT_THAT(lines[2], HasSubstr("2.00 us"));
  EXPECT_THAT(lines[0], Not(HasSubstr("job")));
}

TEST(node_table, names_programs) {
  const auto lines = node_table(some_nodes(), 0);
  EXPECT_THAT(lines[0], HasSubstr("program"));
  EXPECT_THAT(lines[1], HasSubstr("solver"));
  auto unknown = some_nodes();
  unknown[0].program.clear();
  EXPECT_THAT(node_table(unknown, 0)[1], HasSubstr("node 0  -"));
}

TEST(node_table, explains_its_columns) {
  const std::string header = node_table(some_nodes(), 0).front();
  for (const column_meaning& c : column_meanings()) {
    for (std::string_view name = c.columns; name != "job" && !name.empty();) {
      const std::string_view one = name.substr(0, name.find(','));
      EXPECT_THAT(header, HasSubstr(std::string(one)));
      name.remove_prefix(std::min(name.size(), one.size() + 2));
    }
  }
}

TEST(node_table, names_the_job_if_there_are_several) {
  auto nodes = some_nodes();
  nodes[2].job = 200;
  EXPECT_THAT(node_table(nodes, 0).front(), HasSubstr("job"));
}

TEST(node_table, has_headers_without_nodes) { EXPECT_EQ(node_table({}, 80).size(), 1U); }

TEST(node_table, replaces_control_characters_in_names) {
  auto nodes = some_nodes();
  nodes[0].name = "\x1b[2J\nroot";
  EXPECT_THAT(node_table(nodes, 0)[1], HasSubstr("\uFFFD[2J\uFFFDroot"));
}

std::vector<node_id> sorted_by(node_order by) {
  auto nodes = some_nodes();
  sort_nodes(nodes, by);
  std::vector<node_id> order;
  for (const node_rates& n : nodes)
    order.push_back(n.node);
  return order;
}

TEST(sort_nodes, puts_the_largest_first) {
  using testing::ElementsAre;
  EXPECT_THAT(sorted_by(node_order::node), ElementsAre(0, 1, 2));
  EXPECT_THAT(sorted_by(node_order::calls), ElementsAre(1, 2, 0));
  EXPECT_THAT(sorted_by(node_order::queue), ElementsAre(2, 0, 1));
  EXPECT_THAT(sorted_by(node_order::p99), ElementsAre(1, 0, 2));
  EXPECT_THAT(sorted_by(node_order::memory), ElementsAre(2, 0, 1));
}

TEST(nodes_json, has_null_for_unknown_values) {
  auto nodes = some_nodes();
  nodes.resize(1);
  nodes[0].is_here = false;
  const std::string text = nodes_json(nodes).dump();
  EXPECT_THAT(text, HasSubstr("\"p50_ns\":null"));
  EXPECT_THAT(text, HasSubstr("\"resident_bytes\":null"));
}

} // namespace
} // namespace farcall::tool
