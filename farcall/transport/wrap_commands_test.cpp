// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <gtest/gtest.h>

namespace farcall::test::wrap_commands_test {
namespace {

using words = std::vector<std::string>;

TEST(wrap_commands, are_for_all_nodes_or_for_one) {
  const wrap_commands all = wrap_commands::parse("strace -f;2:gdb -ex 'info threads;1:' --args");
  EXPECT_EQ(all.of(1), (words{"strace", "-f"}));
  EXPECT_EQ(all.of(2), (words{"gdb", "-ex", "info threads;1:", "--args"}));
  EXPECT_EQ(all.by_node().size(), 1U);
  EXPECT_EQ(wrap_commands::parse("2:env X=1").of(1), words{});
  EXPECT_EQ(wrap_commands().of(0), words{});
}

TEST(wrap_commands, may_have_a_colon_themselves) {
  EXPECT_EQ(wrap_commands::parse("env A=1:2").of(5), (words{"env", "A=1:2"}));
}

std::string refusal(const char* text) {
  try {
    (void)wrap_commands::parse(text);
  } catch (const setting_error& e) {
    return e.what();
  }
  return "none";
}

TEST(wrap_commands, that_are_none_are_refused) {
  EXPECT_NE(refusal("").find("there is no command"), std::string::npos);
  EXPECT_NE(refusal("2:").find("there is no command"), std::string::npos);
  EXPECT_NE(refusal("2:a;").find("there is no command"), std::string::npos);
  EXPECT_NE(refusal("2:a;2:b").find("another one for the same nodes"), std::string::npos);
  EXPECT_NE(refusal("a;b").find("another one"), std::string::npos);
  EXPECT_NE(refusal("gdb 'x").find("a quote ' is not closed"), std::string::npos);
  EXPECT_NE(refusal("99999999999999999999:a").find("99999999999999999999"), std::string::npos);
}

} // namespace
} // namespace farcall::test::wrap_commands_test
