// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace farcall::settings_source_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr setting number_row{.name = "test-number",
                             .kind = setting_kind::number,
                             .takes = "ms",
                             .low = 1,
                             .high = 99,
                             .text = "A number"};
constexpr setting option_row{.name = "test-option",
                             .takes = "place",
                             .otherwise = "none",
                             .source = setting_source::command_line,
                             .text = "An option"};
constexpr setting variable_row{.name = "test-variable",
                               .takes = "place",
                               .otherwise = "none",
                               .source = setting_source::environment,
                               .text = "A variable"};

/// Tests with settings of their own, whose variables are unset.
class settings_sources : public ::testing::Test {
 protected:
  settings_sources() {
    static constexpr setting rows[] = {number_row, option_row, variable_row};
    settings::add(rows);
    unset();
  }
  ~settings_sources() override { unset(); }
  static void unset() {
    for (const char* v : {"FARCALL_TEST_NUMBER", "FARCALL_TEST_OPTION", "FARCALL_TEST_VARIABLE"})
      ::unsetenv(v);
  }
};

struct command_line {
  explicit command_line(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "program");
    for (std::string& w : words_)
      argv.push_back(w.data());
    argv.push_back(nullptr);
    argc = static_cast<int>(words_.size());
  }
  settings_source read() { return {argc, argv.data()}; }
  [[nodiscard]] std::vector<std::string> left() const {
    return {argv.begin() + 1, argv.begin() + argc};
  }

  int argc = 0;
  std::vector<char*> argv;

 private:
  std::vector<std::string> words_;
};

settings_source read(std::vector<std::string> words) {
  return command_line(std::move(words)).read();
}

TEST_F(settings_sources, options_leave_the_command_line) {
  command_line line({"a", "--farcall-test-number=5", "-b", "--farcall-test-option", "here", "c"});
  const settings_source s = line.read();
  EXPECT_THAT(line.left(), ElementsAre("a", "-b", "c"));
  EXPECT_EQ(line.argv[static_cast<std::size_t>(line.argc)], nullptr);
  EXPECT_EQ(s.number(number_row), 5U);
  EXPECT_EQ(s.text(option_row), "here");
}

TEST_F(settings_sources, stop_at_two_dashes) {
  command_line line({"--", "--farcall-test-number=5", "--farcall-nonsense"});
  EXPECT_EQ(line.read().number(number_row), std::nullopt);
  EXPECT_THAT(line.left(), ElementsAre("--", "--farcall-test-number=5", "--farcall-nonsense"));
}

TEST_F(settings_sources, the_last_option_counts) {
  EXPECT_EQ(read({"--farcall-test-number=5", "--farcall-test-number=6"}).number(number_row), 6U);
}

TEST_F(settings_sources, options_come_before_variables) {
  ::setenv("FARCALL_TEST_NUMBER", "7", 1);
  EXPECT_EQ(read({"--farcall-test-number=5"}).number(number_row, true), 5U);
  EXPECT_EQ(read({}).number(number_row, true), 7U) << "and both before the program";
}

TEST_F(settings_sources, the_program_decides_if_it_keeps_its_command_line) {
  ::setenv("FARCALL_TEST_NUMBER", "7", 1);
  EXPECT_EQ(settings_source().number(number_row, true), std::nullopt);
  EXPECT_EQ(settings_source().number(number_row, false), 7U);
}

TEST_F(settings_sources, empty_variables_count_as_unset) {
  ::setenv("FARCALL_TEST_NUMBER", "", 1);
  EXPECT_EQ(settings_source().number(number_row), std::nullopt);
}

TEST_F(settings_sources, options_of_the_command_line_have_no_variable) {
  ::setenv("FARCALL_TEST_OPTION", "there", 1);
  EXPECT_EQ(read({}).text(option_row), std::nullopt);
  EXPECT_EQ(settings_source().text(option_row), std::nullopt);
}

TEST_F(settings_sources, settings_of_the_environment_have_no_option) {
  ::setenv("FARCALL_TEST_VARIABLE", "there", 1);
  EXPECT_EQ(read({}).text(variable_row), "there");
  EXPECT_THROW(read({"--farcall-test-variable=here"}), setting_error);
}

TEST_F(settings_sources, errors_name_what_was_given) {
  EXPECT_THAT([] { read({"--farcall-test-number=soon"}); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("--farcall-test-number is \"soon\""),
                                                 Not(HasSubstr("FARCALL_TEST")))));
  ::setenv("FARCALL_TEST_NUMBER", "100", 1);
  EXPECT_THAT([] { (void)settings_source().number(number_row); },
              ThrowsMessage<setting_error>("FARCALL_TEST_NUMBER is \"100\"; give a whole number "
                                           "from 1 to 99 (ms)"));
}

TEST_F(settings_sources, options_need_a_value) {
  EXPECT_THAT([] { read({"--farcall-test-number"}); },
              ThrowsMessage<setting_error>(HasSubstr("needs a value")));
  EXPECT_THAT([] { read({"--farcall-test-number="}); },
              ThrowsMessage<setting_error>(HasSubstr("--farcall-test-number has an empty value")));
}

TEST_F(settings_sources, errors_of_unknown_options_name_the_nearest) {
  EXPECT_THAT([] { read({"--farcall-test-nubmer=5"}); },
              ThrowsMessage<setting_error>("unknown option --farcall-test-nubmer; did you mean "
                                           "--farcall-test-number? --farcall-help lists them"));
  EXPECT_THAT([] { read({"--farcall-colour-of-the-sky=5"}); },
              ThrowsMessage<setting_error>(
                  "unknown option --farcall-colour-of-the-sky; --farcall-help lists them"));
}

TEST_F(settings_sources, help_stops_the_reading_of_options) {
  EXPECT_TRUE(read({"--farcall-help", "--farcall-nonsense=1"}).asks_for_help());
  EXPECT_FALSE(read({"--farcall-test-number=5"}).asks_for_help());
  EXPECT_FALSE(settings_source().asks_for_help());
}

} // namespace
} // namespace farcall::settings_source_test
