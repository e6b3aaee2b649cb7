// SPDX-License-Identifier: Apache-2.0
#include "table_difference.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using rows = std::vector<std::pair<std::string, std::string>>;

detail::program_table table_with(rows of, std::uint64_t digest, const char* library = "libstdc++") {
  of.insert(of.begin(), {library, ""});
  return {"build " + std::to_string(digest), digest, std::move(of)};
}

table_comparison compare(rows first, rows second, const char* second_library = "libstdc++") {
  return compare_tables(table_with(std::move(first), 1),
                        table_with(std::move(second), 2, second_library), "a", "b");
}

/// Returns why calls fail between two tables of one row each.
std::string why(const std::pair<std::string, std::string>& first,
                const std::pair<std::string, std::string>& second,
                const char* second_library = "libstdc++") {
  const table_comparison found = compare({first}, {second}, second_library);
  if (found.differences.size() != 1) return std::to_string(found.differences.size());
  EXPECT_EQ(found.matching, 0U);
  EXPECT_EQ(found.differences[0].first, 1U);
  return found.differences[0].why;
}

TEST(table_difference, is_none_where_the_digests_are_equal) {
  // Also for rows that are there twice, which identical builds can distinguish.
  const detail::program_table t = table_with({{"3one", "FiiE|4:4"}, {"3one", "FiiE|4:4"}}, 7);
  const table_comparison found = compare_tables(t, t, "a", "b");
  EXPECT_TRUE(found.is_same_table);
  EXPECT_EQ(found.matching, 2U);
  EXPECT_TRUE(found.differences.empty());
}

TEST(table_difference, finds_equal_rows_at_other_places) {
  const table_comparison found =
      compare({{"3one", "FivE|4:4"}, {"3two", "FivE|4:4"}}, {{"3two", "FivE|4:4"}});
  EXPECT_EQ(found.matching, 1U);
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_EQ(found.differences[0].first, 1U);
  EXPECT_EQ(found.differences[0].second, 0U);
  EXPECT_EQ(found.differences[0].why, "missing in b");
}

TEST(table_difference, tells_what_the_first_program_lacks) {
  const table_comparison found = compare({}, {{"3two", "FivE|4:4"}});
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_EQ(found.differences[0].first, 0U);
  EXPECT_EQ(found.differences[0].second, 1U);
  EXPECT_EQ(found.differences[0].why, "missing in a");
}

TEST(table_difference, tells_how_signatures_differ) {
  EXPECT_EQ(why({"3one", "FiiE|4:4,4:4"}, {"3one", "FliE|8:8,4:4"}),
            "other signature: int (int) in a, long (int) in b");
  EXPECT_EQ(why({"3one", "Fv5pointE|-,16:8"}, {"3one", "Fv5pointE|-,24:8"}),
            "other layout: -,16:8 in a, -,24:8 in b");
  EXPECT_EQ(why({"3one", "FiiE|4:4,4:4"}, {"3one", "FiiE|4:4,4:4;8:8"}),
            "other contents: nothing in a, 8:8 in b");
  EXPECT_EQ(why({"3one", "FeeE|16:16m64,16:16m64"}, {"3one", "FeeE|16:16m113,16:16m113"}),
            "other layout: long double has two formats: 16:16m64,16:16m64 in a, "
            "16:16m113,16:16m113 in b");
  EXPECT_NE(why({"3one", "Fv5pointE|-,16:8"}, {"3one", "Fv5pointE|-,16:8(libc++)"})
                .find("has_fixed_layout"),
            std::string::npos);
}

TEST(table_difference, tells_that_compilers_number_lambdas) {
  EXPECT_NE(why({"Z4mainEUliE_", "FiiE|4:4,4:4|gcc"}, {"Z4mainEUliE_", "FiiE|4:4,4:4|clang"})
                .find("other compiler, which numbers lambdas otherwise: gcc in a, clang in b"),
            std::string::npos);
  const table_comparison found =
      compare({{"Z4mainE3$_0", "FiiE|4:4,4:4|clang"}}, {{"Z4mainE3$_0", "FiiE|4:4,4:4|clang"}});
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_NE(found.differences[0].why.find("clang numbers lambdas by file"), std::string::npos);
}

TEST(table_difference, tells_that_one_file_knows_it) {
  EXPECT_NE(why({"L3one@x.cpp", "FivE|4:4"}, {"L3one@y.cpp", "FivE|4:4"}).find("x.cpp in a, y.cpp"),
            std::string::npos);
}

TEST(table_difference, tells_of_two_that_cannot_be_told_apart) {
  const table_comparison found =
      compare({{"3one", "FivE|4:4"}}, {{"3one", "FivE|4:4"}, {"3one", "FivE|4:4"}});
  ASSERT_FALSE(found.differences.empty());
  EXPECT_EQ(found.differences[0].why, "there are two in b; give them different names");
  EXPECT_EQ(found.matching, 0U);
}

TEST(table_difference, tells_of_the_other_standard_library) {
  EXPECT_NE(why({"PFvNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE",
                 "FvNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE|-,{1:1}"},
                {"PFvNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEEE",
                 "FvNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEEE|-,{1:1}"},
                "libc++")
                .find("other standard library"),
            std::string::npos);
}

TEST(table_difference, takes_any_rows) { EXPECT_EQ(why({"", ""}, {"@", "|"}).empty(), false); }

} // namespace
} // namespace farcall::tool
