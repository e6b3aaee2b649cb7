// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/settings_table_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::settings_table_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr setting number_row{.name = "test-number",
                             .kind = setting_kind::number,
                             .takes = "ms",
                             .low = 10,
                             .high = 20,
                             .number = 15,
                             .text = "A number"};
constexpr setting power_row{.name = "test-power",
                            .kind = setting_kind::power_of_two,
                            .takes = "bytes",
                            .low = 8,
                            .high = 64,
                            .number = 16,
                            .text = "A power"};
constexpr setting choice_row{.name = "test-choice",
                             .kind = setting_kind::choice,
                             .takes = "red|green|blue",
                             .otherwise = "green",
                             .text = "A choice"};
constexpr setting text_row{
    .name = "test-text", .takes = "file", .otherwise = "none", .text = "A text"};

std::vector<std::string> unknown_in(std::vector<const char*> environment,
                                    std::vector<std::string_view> others = {}) {
  environment.push_back(nullptr);
  return settings::unknown(environment.data(), others);
}

TEST(settings_table, rows_are_complete) {
  std::set<std::string_view> names;
  for (const setting& s : settings::core) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name << " is there twice";
    EXPECT_FALSE(s.text.empty()) << s.name;
    EXPECT_FALSE(s.takes.empty()) << s.name;
    if (s.kind == setting_kind::number || s.kind == setting_kind::power_of_two) {
      EXPECT_LT(s.low, s.high) << s.name;
      if (s.otherwise.empty()) {
        EXPECT_NO_THROW((void)settings::number_of(s, "x", settings::default_of(s))) << s.name;
      }
    } else {
      EXPECT_FALSE(s.otherwise.empty()) << s.name;
    }
    if (s.kind == setting_kind::choice) {
      EXPECT_NO_THROW(settings::check(s, "x", settings::default_of(s))) << s.name;
    }
  }
}

TEST(settings_table, both_names_follow_from_one) {
  EXPECT_EQ(settings::variable_of(settings::row("start-timeout-ms")), "FARCALL_START_TIMEOUT_MS");
  EXPECT_EQ(settings::option_of(settings::row("start-timeout-ms")), "--farcall-start-timeout-ms");
}

TEST(settings_table, is_what_the_documentation_says) {
  std::ifstream file(FARCALL_DOCUMENTS "/settings.md");
  std::vector<std::string> rows;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| Variable | Option |")) is_inside = true;
    if (line.empty()) is_inside = false;
    if (is_inside && line.starts_with("| ") && !line.starts_with("| Variable"))
      rows.push_back(line);
  }
  std::vector<std::string> expected;
  for (const setting& s : settings::core)
    expected.push_back(test::line_in_docs(s));
  std::string text;
  for (const std::string& line : expected)
    text += line + "\n";
  EXPECT_EQ(rows, expected) << "the first table of docs/settings.md must be\n" << text;
}

TEST(setting_values, numbers_end_at_the_range) {
  EXPECT_EQ(settings::number_of(number_row, "x", "10"), 10U);
  EXPECT_EQ(settings::number_of(number_row, "x", "20"), 20U);
  for (const char* bad : {"9", "21", "-10", "ten", "", "15ms", "1e1"})
    EXPECT_THROW((void)settings::number_of(number_row, "x", bad), setting_error) << bad;
}

TEST(setting_values, only_powers_of_two_are_accepted) {
  EXPECT_EQ(settings::number_of(power_row, "x", "32"), 32U);
  for (const char* bad : {"4", "33", "128", "0"})
    EXPECT_THROW((void)settings::number_of(power_row, "x", bad), setting_error) << bad;
}

TEST(setting_values, choices_are_whole_words) {
  EXPECT_NO_THROW(settings::check(choice_row, "x", "blue"));
  for (const char* bad : {"Blue", "blu", "red|green", "yellow", ""})
    EXPECT_THROW(settings::check(choice_row, "x", bad), setting_error) << bad;
}

TEST(setting_values, texts_are_not_empty) {
  EXPECT_NO_THROW(settings::check(text_row, "x", "a b"));
  EXPECT_THROW(settings::check(text_row, "x", ""), setting_error);
}

TEST(setting_values, errors_name_source_value_and_accepted_values) {
  EXPECT_THAT([] { settings::check(number_row, "FARCALL_TEST_NUMBER", "soon"); },
              ThrowsMessage<setting_error>("FARCALL_TEST_NUMBER is \"soon\"; give a whole number "
                                           "from 10 to 20 (ms)"));
  EXPECT_THAT([] { settings::check(power_row, "--farcall-test-power", "33"); },
              ThrowsMessage<setting_error>("--farcall-test-power is \"33\"; give a power of two "
                                           "from 8 to 64 (bytes)"));
  EXPECT_THAT([] { settings::check(choice_row, "x", "pink"); },
              ThrowsMessage<setting_error>("x is \"pink\"; give red, green or blue"));
  EXPECT_THAT([] { settings::check(text_row, "x", ""); },
              ThrowsMessage<setting_error>("x has an empty value; give file"));
}

TEST(settings_help, names_every_setting_with_range_and_default) {
  const std::string help = settings::help();
  for (const setting& s : settings::core) {
    if (s.source != setting_source::environment) {
      EXPECT_THAT(help, HasSubstr(settings::option_of(s) + "="));
    }
    if (s.source != setting_source::command_line) {
      EXPECT_THAT(help, HasSubstr(settings::variable_of(s) + "="));
    }
    EXPECT_THAT(help, HasSubstr(std::string(s.text) + "; "));
    EXPECT_THAT(help, HasSubstr("default " + settings::default_of(s) + "\n"));
  }
  EXPECT_THAT(help, HasSubstr("a whole number from 10 to 86400000 (ms), default 5000"));
  EXPECT_THAT(help, Not(HasSubstr("FARCALL_SERVE="))) << "the environment must not make servers";
  EXPECT_THAT(help, Not(HasSubstr("--farcall-log")));
}

TEST(added_settings, are_like_the_librarys) {
  static constexpr setting rows[] = {{.name = "test-added",
                                      .takes = "colour",
                                      .otherwise = "red",
                                      .source = setting_source::environment,
                                      .text = "Of a layer above"}};
  EXPECT_THAT(unknown_in({"FARCALL_TEST_ADDED=1"}), ElementsAre(HasSubstr("FARCALL_TEST_ADDED")));
  settings::add(rows);
  const std::size_t count = settings::all().size();
  settings::add(rows);
  EXPECT_EQ(settings::all().size(), count) << "added twice";
  EXPECT_THAT(unknown_in({"FARCALL_TEST_ADDED=1"}), IsEmpty());
  EXPECT_THAT(unknown_in({"FARCALL_TEST_ADED=1"}),
              ElementsAre(HasSubstr("did you mean FARCALL_TEST_ADDED?")));
  EXPECT_THAT(settings::help(), HasSubstr("FARCALL_TEST_ADDED=colour"));
}

TEST(nearest_name, is_the_one_with_the_fewest_wrong_letters) {
  const std::vector<std::string_view> names{"SPIN_US", "TARGETS", "START_TIMEOUT_MS",
                                            "STOP_TIMEOUT_MS"};
  EXPECT_EQ(settings::nearest("SPIN_US", names), "SPIN_US");
  EXPECT_EQ(settings::nearest("SPIN_UZ", names), "SPIN_US") << "replaced";
  EXPECT_EQ(settings::nearest("SPINN_US", names), "SPIN_US") << "inserted";
  EXPECT_EQ(settings::nearest("SPIN_S", names), "SPIN_US") << "dropped";
  EXPECT_EQ(settings::nearest("TRAGETS", names), "TARGETS") << "swapped";
  EXPECT_EQ(settings::nearest("STOP_TIMEOUT", names), "STOP_TIMEOUT_MS");
}

TEST(nearest_name, swapped_letters_are_one_mistake) {
  const std::vector<std::string_view> names{"AC"};
  EXPECT_EQ(settings::nearest("CA", names), "") << "half of it is wrong";
  const std::vector<std::string_view> longer{"ABCD", "ACXB"};
  EXPECT_EQ(settings::nearest("ACBD", longer), "ABCD");
}

TEST(nearest_name, is_empty_if_all_are_far) {
  const std::vector<std::string_view> names{"SPIN_US", "KEY"};
  EXPECT_EQ(settings::nearest("COLOUR_OF_THE_SKY", names), "");
  EXPECT_EQ(settings::nearest("CC", names), "");
  EXPECT_EQ(settings::nearest("", names), "");
  EXPECT_EQ(settings::nearest("SPIN_US", {}), "");
}

TEST(unknown_variables, are_told_with_the_nearest_name) {
  EXPECT_THAT(unknown_in({"FARCALL_SPIN_UZ=5", "PATH=/bin", "FARCALLED=1", "FARCALL_SPIN_US=5"}),
              ElementsAre("FARCALL_SPIN_UZ is not a setting; did you mean FARCALL_SPIN_US?"));
  EXPECT_THAT(unknown_in({"FARCALL_COLOUR_OF_THE_SKY=5"}),
              ElementsAre("FARCALL_COLOUR_OF_THE_SKY is not a setting; docs/settings.md lists "
                          "them"));
}

TEST(unknown_variables, all_settings_are_known) {
  for (const setting& s : settings::core) {
    std::string entry = settings::variable_of(s);
    entry += "=1";
    if (s.source != setting_source::command_line) {
      EXPECT_THAT(unknown_in({entry.c_str()}), IsEmpty());
    }
  }
}

TEST(unknown_variables, an_option_is_no_variable) {
  EXPECT_THAT(unknown_in({"FARCALL_PLAIN=yes"}),
              ElementsAre("FARCALL_PLAIN is not read from the environment; give "
                          "--farcall-plain=yes|no"));
}

TEST(unknown_variables, empty_ones_count_as_unset) {
  EXPECT_THAT(unknown_in({"FARCALL_SPIN_UZ="}), IsEmpty());
  EXPECT_THAT(unknown_in({"FARCALL_SPIN_UZ"}), IsEmpty());
  EXPECT_THAT(settings::unknown(nullptr, {}), IsEmpty());
}

TEST(unknown_variables, variables_of_other_readers_are_known) {
  EXPECT_THAT(unknown_in({"FARCALL_SPIN_UZ=1"}, {"FARCALL_SPIN_UZ"}), IsEmpty());
  EXPECT_THAT(unknown_in({"FARCALL_VEO_NODES=1"}, {"FARCALL_VEO_*"}), IsEmpty());
  EXPECT_THAT(unknown_in({"FARCALL_VEO=1"}, {"FARCALL_VEO_*"}), Not(IsEmpty()));
  EXPECT_THAT(unknown_in({"FARCALL_SSH_X=1"}, {"FARCALL_SSH"}), Not(IsEmpty()));
}

} // namespace
} // namespace farcall::settings_table_test
