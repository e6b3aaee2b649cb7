// SPDX-License-Identifier: Apache-2.0
#include "man_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(man_page, describes_options_and_commands) {
  std::string value;
  bool flag = false;
  command below{.name = "wall", .text = "Paint a wall"};
  below.options = {{.name = "--colour", .value = &value, .takes = "COLOUR", .text = "Its colour"}};
  command hidden{.name = "hidden", .text = "Hidden", .is_internal = true};
  command paint{.name = "paint", .text = "Paint something", .footer = "One.\n.Two's \\ text."};
  paint.options = {
      {.name = "-n,--number", .value = &value, .takes = "N", .text = "How many"},
      {.name = "--watch", .value = &value, .takes = "WALL", .text = "Which", .otherwise = "all"},
      {.name = "--secret", .value = &flag, .text = "Secret", .is_internal = true}};
  paint.commands = {below, hidden};
  const command program{.name = "farcall", .text = "Call", .commands = {paint}};

  EXPECT_EQ(man_page_file({&program, &paint}), "farcall-paint.1");
  const std::string page = man_page({&program, &paint}, "1.2");
  EXPECT_THAT(page, HasSubstr(".TH FARCALL\\-PAINT 1 \"\" \"farcall 1.2\""));
  EXPECT_THAT(page, HasSubstr("farcall\\-paint \\- paint something\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-n\\fR, \\fB\\-\\-number\\fR \\fIN\\fR\nHow many.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-watch\\fR[=\\fIWALL\\fR]\n"));
  EXPECT_THAT(page, HasSubstr("One.\n.PP\n\\&.Two\\(aqs \\e text.\n"));
  EXPECT_THAT(page, HasSubstr(".SS farcall paint wall\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-colour\\fR \\fICOLOUR\\fR\nIts colour.\n"));
  EXPECT_THAT(page, Not(HasSubstr("ecret")));
  EXPECT_THAT(page, Not(HasSubstr("idden")));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n.BR farcall (1)\n"));

  // The page of the program lists its commands.
  const std::string all = man_page({&program}, "1.2");
  EXPECT_THAT(all, HasSubstr(".TP\n\\fBpaint\\fR\nPaint something.\n"));
  EXPECT_THAT(all, HasSubstr(".BR farcall\\-paint (1)\n"));
  EXPECT_THAT(all, Not(HasSubstr("number")));
}

} // namespace
} // namespace farcall::tool
