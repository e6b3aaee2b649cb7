// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::settings_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::ThrowsMessage;

constexpr const char* variable = "FARCALL_SETTINGS_TEST";

TEST(environment, gives_the_value_of_a_variable) {
  ::setenv(variable, "shm:2", 1);
  EXPECT_EQ(environment(variable), "shm:2");
  ::setenv(variable, " ", 1);
  EXPECT_EQ(environment(variable), " ");
  ::unsetenv(variable);
}

TEST(environment, an_empty_variable_counts_as_unset) {
  ::unsetenv(variable);
  EXPECT_EQ(environment(variable), std::nullopt);
  ::setenv(variable, "", 1);
  EXPECT_EQ(environment(variable), std::nullopt);
  ::unsetenv(variable);
}

TEST(parse_number, reads_whole_numbers) {
  EXPECT_EQ(parse_number("0", "x", 0, 0), 0U);
  EXPECT_EQ(parse_number("7", "x", 0, 10), 7U);
  EXPECT_EQ(parse_number("007", "x", 0, 10), 7U);
  EXPECT_EQ(parse_number("18446744073709551615", "x", 0, UINT64_MAX), UINT64_MAX);
}

TEST(parse_number, includes_both_ends_of_the_range) {
  EXPECT_EQ(parse_number("3", "x", 3, 5), 3U);
  EXPECT_EQ(parse_number("5", "x", 3, 5), 5U);
  EXPECT_THROW((void)parse_number("2", "x", 3, 5), setting_error);
  // Control characters of the text must not reach a terminal.
  EXPECT_THAT([] { (void)parse_number("1\x1b[31m\n", "x", 3, 5); },
              ThrowsMessage<setting_error>(Not(AnyOf(HasSubstr("\x1b"), HasSubstr("\n")))));
  EXPECT_THROW((void)parse_number("6", "x", 3, 5), setting_error);
}

TEST(parse_number, refuses_everything_that_is_no_whole_number) {
  constexpr std::string_view no_numbers[] = {"",
                                             " ",
                                             "+1",
                                             "-1",
                                             "-0",
                                             " 1",
                                             "1 ",
                                             "1x",
                                             "x1",
                                             "0x1",
                                             "1e3",
                                             "1.0",
                                             "1,0",
                                             "one",
                                             "--",
                                             "1\t",
                                             "\n1",
                                             "\xEF\xBC\x91",
                                             "18446744073709551616",
                                             "99999999999999999999999999",
                                             std::string_view("1\0", 2)};
  for (const std::string_view text : no_numbers) {
    EXPECT_THROW((void)parse_number(text, "x", 0, UINT64_MAX), setting_error) << '"' << text << '"';
  }
}

TEST(parse_number, says_what_was_wrong_and_what_to_give) {
  EXPECT_THAT(
      [] { (void)parse_number("many", "workers in \"shm\"", 1, 64); },
      ThrowsMessage<setting_error>(AllOf(HasSubstr("workers in \"shm\""), HasSubstr("\"many\""),
                                         HasSubstr("whole number from 1 to 64"))));
}

TEST(split, keeps_every_piece) {
  EXPECT_THAT(split("a,bc,d", ','), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(split("alone", ','), ElementsAre("alone"));
  EXPECT_THAT(split("a;b", ','), ElementsAre("a;b"));
}

TEST(split, keeps_empty_pieces) {
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split(",a,", ','), ElementsAre("", "a", ""));
}

TEST(parse_query, keeps_the_order_and_repetitions) {
  EXPECT_THAT(parse_query("cpu=1&workers=2&cpu=3"),
              ElementsAre(Pair("cpu", "1"), Pair("workers", "2"), Pair("cpu", "3")));
}

TEST(parse_query, splits_at_the_first_equals_sign) {
  EXPECT_THAT(parse_query("program=a=b"), ElementsAre(Pair("program", "a=b")));
  EXPECT_THAT(parse_query("=b"), ElementsAre(Pair("", "b")));
}

TEST(parse_query, a_missing_value_is_an_empty_one) {
  EXPECT_THAT(parse_query("a&b="), ElementsAre(Pair("a", ""), Pair("b", "")));
}

TEST(parse_query, empty_pieces_are_seen) {
  EXPECT_THAT(parse_query(""), IsEmpty());
  EXPECT_THAT(parse_query("&a=1"), ElementsAre(Pair("", ""), Pair("a", "1")));
  EXPECT_THAT(parse_query("a=1&"), ElementsAre(Pair("a", "1"), Pair("", "")));
}

} // namespace
} // namespace farcall::settings_test
