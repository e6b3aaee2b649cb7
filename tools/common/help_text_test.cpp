// SPDX-License-Identifier: Apache-2.0
#include "help_text.hpp"
#include "table.hpp"
#include "terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

command example_command(std::string& value, bool& flag) {
  return {.name = "paint",
          .text = "Paint a picture",
          .usage = {"[OPTIONS] FILE", "--list"},
          .footer = "First paragraph.\nSecond paragraph.",
          .examples = {{"paint --colour red a", "Paint in red"}},
          .options = {{.name = "--colour",
                       .value = &value,
                       .takes = "COLOUR",
                       .text = "Colour of the picture, which is as long a text as is needed to "
                               "fill more than a line"},
                      {.name = "--an-option-with-a-long-name",
                       .value = &value,
                       .text = "Text that begins on a line of its own"},
                      {.name = "--secret", .value = &flag, .text = "Hidden", .is_internal = true}}};
}

TEST(help_text, breaks_lines_between_words) {
  EXPECT_THAT(wrapped("a bb ccc  dddd", 6), ElementsAre("a bb", "ccc", "dddd"));
  EXPECT_THAT(wrapped("abcdefgh i\nj", 4), ElementsAre("abcdefgh", "i", "j"));
  EXPECT_THAT(wrapped("äöü äöü", 7), ElementsAre("äöü äöü"));
}

TEST(help_text, aligns_texts_and_omits_internal_options) {
  std::string value;
  bool flag = false;
  const command paint = example_command(value, flag);
  EXPECT_EQ(help_text({&paint}, 60, false), R"(Usage: paint [OPTIONS] FILE
       paint --list

Paint a picture.

Options:
  --colour COLOUR           Colour of the picture, which is
                            as long a text as is needed to
                            fill more than a line
  --an-option-with-a-long-name TEXT
                            Text that begins on a line of
                            its own

First paragraph.
Second paragraph.

Examples:
  Paint in red:
    paint --colour red a
)");
}

TEST(help_text, fits_any_width_that_words_fit) {
  std::string value;
  bool flag = false;
  const command paint = example_command(value, flag);
  for (std::size_t width = 50; width < 200; ++width) {
    for (const std::string& line : wrapped(help_text({&paint}, width, false), 1000))
      EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(help_text, has_colours_only_if_asked) {
  std::string value;
  bool flag = false;
  const command paint = example_command(value, flag);
  EXPECT_THAT(help_text({&paint}, 80, false), Not(HasSubstr("\033")));
  EXPECT_THAT(help_text({&paint}, 80, true), HasSubstr("\033[36m--colour COLOUR\033[0m"));
}

} // namespace
} // namespace farcall::tool
