// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/command_words.hpp>

#include <gtest/gtest.h>

namespace farcall::test::command_words_test {
namespace {

using words = std::vector<std::string>;

TEST(command_words, stand_between_spaces_and_in_quotes) {
  EXPECT_EQ(command_words("  gdb -ex 'bt full'  a\"b c\"d '' "),
            (words{"gdb", "-ex", "bt full", "ab cd", ""}));
  EXPECT_EQ(command_words(" "), words{});
  EXPECT_THROW((void)command_words("gdb 'bt"), setting_error);
}

TEST(command_words, are_what_the_line_was_made_of) {
  const words all{"env", "A=x y", "it's", "\"", "", "a;b", "2:c", "'\"'"};
  EXPECT_EQ(command_words(command_line(all)), all);
  EXPECT_EQ(command_line({"gdb", "--args"}), "gdb --args");
}

TEST(command_words, end_outside_quotes_only) {
  EXPECT_EQ(find_unquoted("a 'b;c';d", 0, ";"), 7U);
  EXPECT_EQ(find_unquoted("a 'b;c'", 0, ";"), 7U);
}

} // namespace
} // namespace farcall::test::command_words_test
