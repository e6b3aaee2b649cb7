// SPDX-License-Identifier: Apache-2.0
#include "function_table.hpp"

#include "example_profile.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

const function_row& row_named(const function_group& group, const std::string& name) {
  for (const function_row& row : group.rows) {
    if (row.function == name) return row;
  }
  throw std::runtime_error("no " + name);
}

TEST(function_table, counts_samples_of_functions_and_of_what_they_call) {
  const auto groups = function_groups(example_profile(), {});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].samples, 12U);
  EXPECT_EQ(groups[0].computing, 7U);
  EXPECT_EQ(groups[0].waiting, 2U);
  EXPECT_EQ(groups[0].idle, 3U);
  EXPECT_EQ(groups[0].counted, 7U);
  EXPECT_EQ(row_named(groups[0], "main").self, 0U);
  EXPECT_EQ(row_named(groups[0], "main").total, 6U); // without its two waiting samples
  EXPECT_EQ(row_named(groups[0], "axpy").self, 3U);
  EXPECT_EQ(row_named(groups[0], "serve").total, 1U);
  EXPECT_THROW((void)row_named(groups[0], "wait"), std::runtime_error);
  const auto with_waiting = function_groups(example_profile(), {.also_waiting = true, .width = {}});
  EXPECT_EQ(row_named(with_waiting[0], "main").total, 8U);
  EXPECT_EQ(row_named(with_waiting[0], "wait").self, 2U);
}

TEST(function_table, counts_a_recursion_once_for_each_sample) {
  profile seen;
  seen.frames = {{"f", {}, {}}, {"g", {}, {}}};
  seen.threads.resize(1);
  seen.stacks = {{0, profile_stack::none}, {1, 0}, {0, 1}, {1, 2}};
  seen.samples = {{.stack = 3}, {.stack = 3}, {.stack = 2}};
  const auto groups = function_groups(seen, {});
  EXPECT_EQ(row_named(groups[0], "f").self, 1U);
  EXPECT_EQ(row_named(groups[0], "f").total, 3U);
  EXPECT_EQ(row_named(groups[0], "g").self, 2U);
  EXPECT_EQ(row_named(groups[0], "g").total, 3U);
}

TEST(function_table, groups_by_node_and_by_thread) {
  const auto nodes =
      function_groups(example_profile(), {.group = function_table_options::per::node, .width = {}});
  ASSERT_EQ(nodes.size(), 2U); // the third process is not part of a job
  EXPECT_EQ(nodes[0].title, "node 0");
  EXPECT_EQ(nodes[0].samples, 8U);
  EXPECT_EQ(nodes[1].title, "node 1");
  EXPECT_EQ(nodes[1].idle, 3U);
  const auto threads = function_groups(example_profile(),
                                       {.group = function_table_options::per::thread, .width = {}});
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[1].title, "node 1: solver (200), wor;ker (201)");
}

TEST(function_table, prints_all_that_is_known) {
  EXPECT_EQ(function_table(example_profile(), {.max_rows = 2, .width = {}}),
            "12 samples: 7 computed (58.3 %), 2 waited, 3 idle\n"
            "self %  total %  self s  self  total  module                  function\n"
            "------  -------  ------  ----  -----  ----------------------  --------\n"
            "  42.9     85.7   0.030     3      6  /opt/solver/bin/solver  "
            "solve(matrix<double> const&)\n"
            "  42.9     42.9   0.030     3      3  /opt/solver/bin/solver  axpy\n"
            "and 3 more functions\n"
            "The kernel dropped 7 more samples.\n");
}

TEST(function_table, gives_each_line_its_own_length) {
  profile seen = example_profile();
  seen.frames[1].function = std::string(5000, 'x');
  std::istringstream lines(function_table(seen, {}));
  int long_lines = 0;
  for (std::string line; std::getline(lines, line);)
    long_lines += line.size() > 200 ? 1 : 0;
  EXPECT_EQ(long_lines, 1);
}

TEST(function_table, does_not_invent_seconds) {
  profile seen = example_profile();
  seen.samples_per_second = 0;
  EXPECT_EQ(function_table(seen, {}).find("self s "), std::string::npos);
}

TEST(function_table, fits_any_terminal_from_20_columns_up) {
  profile seen = example_profile();
  seen.frames[1].function = "ns::µ" + std::string(300, 'x') + "::last()";
  for (std::size_t width = 1; width < 160; ++width) {
    const std::string text =
        function_table(seen, {.group = function_table_options::per::thread, .width = width});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), std::max<std::size_t>(width, 20)) << width << ": " << line;
    EXPECT_NE(text.find("ns::"), std::string::npos) << width;
    EXPECT_NE(text.find("t()"), std::string::npos) << width; // the end distinguishes functions
    EXPECT_NE(text.find("self %"), std::string::npos) << width;
  }
  EXPECT_NE(function_table(seen, {}).find(seen.frames[1].function), std::string::npos);
}

TEST(function_table, says_that_there_are_no_samples) {
  EXPECT_EQ(function_table({}, {}), "0 samples: 0 computed (0.0 %), 0 waited, 0 idle\n");
}

} // namespace
} // namespace farcall::tool
