// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(environment, the_choice_in_brackets_is_read) {
  EXPECT_EQ(bracketed_choice("always [madvise] never"), "madvise");
  EXPECT_EQ(bracketed_choice("always within_size advise [never] deny force"), "never");
  EXPECT_EQ(bracketed_choice("plain"), "plain");
  EXPECT_EQ(bracketed_choice(""), "");
}

TEST(environment, a_file_that_is_missing_reads_as_empty) {
  EXPECT_EQ(first_line_of("/does/not/exist"), "");
  EXPECT_EQ(value_in_file("/does/not/exist", "Key"), -1);
}

TEST(environment, values_are_found_by_their_whole_key) {
  const std::string path = testing::TempDir() + "farcall_environment_test";
  std::ofstream{path} << "MemTotalX:  1 kB\nMemTotal:   4096 kB\nEmpty:\n";
  EXPECT_EQ(value_in_file(path, "MemTotal"), 4096);
  EXPECT_EQ(value_in_file(path, "Mem"), -1);
  EXPECT_EQ(value_in_file(path, "Empty"), -1);
  std::remove(path.c_str());
}

TEST(environment, this_machine_is_described) {
  const environment env = read_environment();
  EXPECT_FALSE(env.kernel.empty());
  EXPECT_FALSE(env.compiler.empty());
  EXPECT_FALSE(env.cpus.empty());
  EXPECT_GT(env.memory_mib, 0);
  const auto document = environment_json(env, core_pair{0, 1});
  EXPECT_EQ(document.at("host_cpu"), 0);
  EXPECT_EQ(document.at("target_cpu"), 1);
}

} // namespace
} // namespace farcall::tool
