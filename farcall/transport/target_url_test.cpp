// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/target_url.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace farcall::target_url_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(parse_targets, a_bare_scheme_is_one_target_with_defaults) {
  const auto targets = parse_targets("shm");
  ASSERT_EQ(targets.size(), 1U);
  EXPECT_EQ(targets[0].scheme, "shm");
  EXPECT_EQ(targets[0].workers, 1U);
  EXPECT_EQ(targets[0].cpu, std::nullopt);
  EXPECT_EQ(targets[0].program, "");
  EXPECT_EQ(targets[0].name, "");
}

TEST(parse_targets, a_count_stands_for_that_many) {
  for (const unsigned count : {1U, 2U, 17U, 4000U}) {
    const auto targets = parse_targets("shm:" + std::to_string(count) + "?workers=3");
    ASSERT_EQ(targets.size(), count);
    for (const target_url& url : targets) {
      EXPECT_EQ(url.scheme, "shm");
      EXPECT_EQ(url.workers, 3U);
    }
  }
}

TEST(parse_targets, options_are_read_in_any_order) {
  for (const char* text : {"shm?workers=4&cpu=7&program=./other&name=solver",
                           "shm?name=solver&program=./other&cpu=7&workers=4"}) {
    const auto targets = parse_targets(text);
    ASSERT_EQ(targets.size(), 1U);
    EXPECT_EQ(targets[0].workers, 4U);
    EXPECT_EQ(targets[0].cpu, 7U);
    EXPECT_EQ(targets[0].program, "./other");
    EXPECT_EQ(targets[0].name, "solver");
  }
}

TEST(parse_targets, a_question_mark_without_options_is_fine) {
  EXPECT_EQ(parse_targets("shm?").size(), 1U);
  EXPECT_EQ(parse_targets("shm:3?").size(), 3U);
}

TEST(parse_targets, several_targets_get_consecutive_processors_and_distinct_names) {
  const auto targets = parse_targets("shm:3?cpu=5&name=worker");
  ASSERT_EQ(targets.size(), 3U);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(targets[i].cpu, 5U + i);
    EXPECT_EQ(targets[i].name, "worker-" + std::to_string(i + 1));
  }
  EXPECT_EQ(parse_targets("shm:1?name=worker")[0].name, "worker");
}

TEST(parse_targets, a_list_keeps_its_order) {
  const auto targets = parse_targets("shm?name=a,shm:2,shm?cpu=0&workers=2");
  ASSERT_EQ(targets.size(), 4U);
  EXPECT_EQ(targets[0].name, "a");
  EXPECT_EQ(targets[1].cpu, std::nullopt);
  EXPECT_EQ(targets[3].cpu, 0U);
  EXPECT_EQ(targets[3].workers, 2U);
}

TEST(parse_targets, values_may_hold_equals_signs_and_colons) {
  EXPECT_EQ(parse_targets("shm?program=/opt/a:b=c/x")[0].program, "/opt/a:b=c/x");
}

TEST(parse_targets, limits_are_inclusive) {
  EXPECT_EQ(parse_targets("shm?workers=64")[0].workers, 64U);
  EXPECT_EQ(parse_targets("shm?cpu=0")[0].cpu, 0U);
  EXPECT_EQ(parse_targets("shm?name=" + std::string(100, 'x'))[0].name.size(), 100U);
  EXPECT_EQ(parse_targets("shm:3999,shm").size(), 4000U);
}

using words = std::vector<std::string>;

TEST(parse_targets, a_command_line_is_cut_into_words) {
  const struct {
    const char* text;
    words right;
  } all[] = {{"exec:./app", {"./app"}},
             {"exec: qemu-aarch64  -L /usr/aarch64-linux-gnu ./app ",
              {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "./app"}},
             {"exec:run 'a b' \"c d\"", {"run", "a b", "c d"}},
             {"exec:run it\"'\"s '' x'y'z", {"run", "it's", "", "xyz"}},
             {"exec:'/folder with spaces/app' --a=b:c", {"/folder with spaces/app", "--a=b:c"}},
             {"exec:run 'a,b' 'c?d=e' \"?,\"?name=n", {"run", "a,b", "c?d=e", "?,"}}};
  for (const auto& [text, right] : all) {
    const auto targets = parse_targets(text);
    ASSERT_EQ(targets.size(), 1U) << text;
    EXPECT_EQ(targets[0].command, right) << text;
    EXPECT_EQ(targets[0].scheme, "shm") << text;
    EXPECT_EQ(targets[0].program, "") << text;
  }
}

TEST(parse_targets, a_command_line_has_options_and_neighbours) {
  const auto targets =
      parse_targets("shm?program=it's,exec:run 'a,b'?count=2&cpu=3&workers=4&name=it's,shm:2");
  ASSERT_EQ(targets.size(), 5U);
  EXPECT_EQ(targets[0].program, "it's") << "no quotes in paths of shm";
  EXPECT_TRUE(targets[0].command.empty());
  for (unsigned i : {0U, 1U}) {
    EXPECT_EQ(targets[1 + i].command, (words{"run", "a,b"}));
    EXPECT_EQ(targets[1 + i].cpu, 3 + i);
    EXPECT_EQ(targets[1 + i].workers, 4U);
    EXPECT_EQ(targets[1 + i].name, "it's-" + std::to_string(i + 1));
  }
  EXPECT_TRUE(targets[3].command.empty());
}

struct bad_url {
  const char* text;
  const char* quoted; ///< part of the text that the error must quote
  const char* advice; ///< remedy that the error must name
};

constexpr const char* example = "targets look like shm, shm:4";
constexpr const char* counts = "whole number from 1 to 4000";

TEST(parse_targets, errors_name_the_mistake_and_the_remedy) {
  constexpr bad_url all[] = {
      // Missing or unknown transports.
      {"", "\"\"", example},
      {",", "\"\"", example},
      {"shm,", "\"\"", example},
      {",shm", "\"\"", example},
      {"shm,,shm", "\"\"", example},
      {"?workers=2", "\"?workers=2\"", example},
      {":4", "\":4\"", example},
      {"SHM", "\"SHM\"", "it has shm"},
      {" shm", "\" shm\"", "it has shm"},
      {"shm ", "\"shm \"", "it has shm"},
      {"shm;shm", "\"shm;shm\"", example},
      {"4", "\"4\"", "it has shm"},
      {"carrier-pigeon:2", "\"carrier-pigeon\"", "it has shm"},
      {"shm,xyz", "\"xyz\"", example},
      // Counts.
      {"shm:", "\"shm:\"", counts},
      {"shm:0", "\"0\"", counts},
      {"shm:4001", "\"4001\"", counts},
      {"shm:-1", "\"-1\"", counts},
      {"shm:four", "\"four\"", counts},
      {"shm:2x", "\"2x\"", counts},
      {"shm:2:3", "\"2:3\"", counts},
      {"shm: 2", "\" 2\"", counts},
      {"shm:99999999999999999999", "99999999999999999999", counts},
      // Options.
      {"shm?worker=2", "\"worker\"", "known: workers, cpu, program, name"},
      {"shm?workers", "workers in \"shm?workers\"", "from 1 to 64"},
      {"shm?workers=", "workers in", "from 1 to 64"},
      {"shm?workers=0", "\"0\"", "from 1 to 64"},
      {"shm?workers=65", "\"65\"", "from 1 to 64"},
      {"shm?workers=2&", "\"\"", "known: workers"},
      {"shm?&workers=2", "\"\"", "known: workers"},
      {"shm?=2", "\"\"", "known: workers"},
      {"shm?workers=2?cpu=1", "\"2?cpu=1\"", "from 1 to 64"},
      {"shm?cpu=first", "cpu in \"shm?cpu=first\"", "whole number from 0"},
      {"shm?cpu=-1", "\"-1\"", "whole number from 0"},
      {"shm?cpu=100000", "\"100000\"", "whole number from 0"},
      {"shm?program=", "program=", "needs a path"},
      {"shm?program", "program=", "needs a path"},
      {"shm?name=", "name=", "1 to 100 characters"},
      {"shm?count=2", "\"count\"", "known: workers, cpu, program, name"},
      {"shm?threads=2", "\"shm?threads=2\"", "unknown option"},
      // Command lines.
      {"exec", "\"exec\"", "exec:qemu-aarch64 ./app"},
      {"exec:", "\"exec:\"", "needs a command line"},
      {"exec:  ?count=2", "\"exec:  ?count=2\"", "needs a command line"},
      {"exec:'' x", "\"exec:'' x\"", "needs a command line"},
      {"exec:,shm", "\"exec:\"", "needs a command line"},
      {"exec:a 'b,c", "\"exec:a 'b,c\"", "quote ' is not closed"},
      {"exec:a \"b'c'", "a quote \"", "is not closed"},
      {"exec:a?program=b", "\"program\"", "known: workers, cpu, count, name"},
      {"exec:a?count=0", "\"0\"", counts},
      {"exec:a?count=4001", "\"4001\"", counts}};
  for (const bad_url& url : all) {
    EXPECT_THAT([&] { (void)parse_targets(url.text); },
                ThrowsMessage<setting_error>(AllOf(HasSubstr(url.quoted), HasSubstr(url.advice))))
        << url.text;
  }
}

TEST(parse_targets, a_name_that_is_too_long_is_refused) {
  EXPECT_THROW((void)parse_targets("shm?name=" + std::string(101, 'x')), setting_error);
}

TEST(parse_targets, an_error_for_too_many_targets_names_their_number) {
  EXPECT_THAT([] { (void)parse_targets("shm:3950,shm:51"); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("\"shm:3950,shm:51\""),
                                                 HasSubstr("4001"), HasSubstr("at most 4000"))));
}

// Entries before the mistake must be dropped: either all targets start, or none.
TEST(parse_targets, one_mistake_refuses_the_whole_list) {
  EXPECT_THROW((void)parse_targets("shm,shm:2,shm?workers=none"), setting_error);
}

} // namespace
} // namespace farcall::target_url_test
