// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/base/log_writer.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace farcall::log::log_test {
namespace {

std::vector<std::pair<level, std::string>> written_lines;

void keep_line(level which, std::string_view text) noexcept {
  written_lines.emplace_back(which, text);
}

class log_writer_test : public testing::Test {
 protected:
  log_writer_test() {
    written_lines.clear();
    set_writer(keep_line);
  }
  ~log_writer_test() override { set_writer(nullptr); }
};

TEST_F(log_writer_test, gets_lines_with_their_level) {
  error("one");
  warning("two");
  using lines = std::vector<std::pair<level, std::string>>;
  EXPECT_EQ(written_lines, (lines{{level::error, "one"}, {level::warning, "two"}}));
  EXPECT_EQ(name_of(level::warning), "warning");
}

TEST_F(log_writer_test, gets_no_line_ends_and_no_control_characters) {
  error("it said \"x\nfarcall[1] error: forged\x1B[2J\"");
  ASSERT_EQ(written_lines.size(), 1U);
  EXPECT_EQ(written_lines[0].second, "it said \"x\uFFFDfarcall[1] error: forged\uFFFD[2J\"");
}

} // namespace
} // namespace farcall::log::log_test
